"""Price files: what is read, what is refused, and which price is found."""

import codecs
import datetime
import json
import os
import subprocess
import sys
from functools import partial

import pytest

from aiperf_calc.prices.book import SEED, default_path, parse, read, template, warnings
from aiperf_core.errors import UsageError

GOOD = """
[[price]]
gpu = "nvidia-h200*"
provider = "acme"
usd_per_hour = 3.2
date = 2026-01-31
source = "https://example.org"
"""
EUR = """
[[currency]]
name = "EUR"
usd = 1.25
date = 2026-01-30
source = "https://example.org/eur"

[[price]]
gpu = "nvidia-h200*"
per_hour = 2
currency = "EUR"
date = 2026-01-31
source = "x"
"""


@pytest.fixture
def prices(aiperf):
    return partial(aiperf, "prices")


def test_an_entry_is_of_each_gpu_of_a_machine():
    book = parse(GOOD, "f")
    found = book.find("nvidia-h200-x8")
    assert found.of_machine("nvidia-h200-x8") == pytest.approx(25.6)
    assert found.of_machine("nvidia-h200-x1") == pytest.approx(3.2)
    assert book.find("nvidia-h100-x1") is None
    assert book.find("nvidia-h200-x1", provider="other") is None


def test_a_processor_has_a_price_of_the_machine_alone():
    entry = GOOD.replace("nvidia-h200*", "amd-epyc*")
    assert parse(entry, "f").find("amd-epyc-x16") is None
    found = parse(entry + 'per = "machine"\n', "f").find("amd-epyc-x16")
    assert found.of_machine("amd-epyc-x16") == 3.2


def test_of_several_entries_the_newest_counts_and_differing_ones_ask():
    newer = GOOD.replace("3.2", "3.0").replace("2026-01-31", "2026-02-28")
    assert parse(GOOD + newer, "f").find("nvidia-h200-x1").usd_per_hour == 3.0
    other = newer.replace("acme", "zeta")
    with pytest.raises(UsageError) as caught:
        parse(GOOD + other, "f").find("nvidia-h200-x1")
    assert str(caught.value) == (
        "f has several prices for 'nvidia-h200-x1', which differ in provider: 'acme', 'zeta'. Choose with --provider."
    )
    assert parse(GOOD + other, "f").find("nvidia-h200-x1", provider="acme").usd_per_hour == 3.2


def test_another_currency_is_converted_at_a_dated_rate():
    found = parse(EUR, "f").prices[0]
    assert found.usd_per_hour == 2.5
    assert found.exchanged == "EUR at 1.25 USD of 2026-01-30"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("date = 2026-01-31", ""), "f, price 1 needs date, the day when it was read, such as date = 2026-01-31."),
        (GOOD.replace('source = "https://example.org"', ""), "f, price 1 needs source, a text that is not empty; got ''."),
        (GOOD.replace("https://example.org", " "), "f, price 1 needs source, a text that is not empty; got ' '."),
        (GOOD.replace("2026-01-31", "2999-01-31"), "f, price 1 has the date 2999-01-31, which lies in the future."),
        (GOOD.replace("2026-01-31", "'soon'"), "f, price 1 needs date, the day when it was read, such as date = 2026-01-31."),
        (GOOD.replace("3.2", "0"), "f, price 1 needs usd_per_hour, a number above 0; got 0."),
        (GOOD.replace("3.2", "nan"), "f, price 1 needs usd_per_hour, a number above 0; got nan."),
        (GOOD.replace("usd_per_hour = 3.2", ""), "f, price 1 needs usd_per_hour, or per_hour with a currency; it has both or neither."),
        (GOOD + 'per = "day"', "f, price 1 has per='day'; accepted: gpu, machine."),
        (GOOD + 'regoin = "x"', "f, price 1 has 'regoin'. Did you mean 'region'? Known: gpu, provider, region, commitment, usd_per_hour, per_hour, currency, per, date, source, note."),
        (EUR.replace('currency = "EUR"', 'currency = "CHF"'), "f, price 1 is in 'CHF', which has no [[currency]] entry with name, usd, date and source."),
        (EUR.replace("date = 2026-01-30", ""), "f, currency 1 needs date, the day when it was read, such as date = 2026-01-31."),
        ("[price]\ngpu = 'x'", "f has [price]; write [[price]] with two brackets, once for each entry."),
        ("[[prize]]", "f has 'prize'; known are the tables [[price]] and [[currency]]."),
        ("[[price", "f is not TOML: Expected ']]' at the end of an array declaration (at end of document). A template: aiperf prices template"),
    ],
)  # fmt: skip
def test_entries_that_are_refused(text, message):
    with pytest.raises(UsageError) as caught:
        parse(text, "f")
    assert str(caught.value) == message


def test_old_prices_warn_or_are_refused():
    found = parse(GOOD, "f").prices
    day = datetime.date(2026, 1, 31)
    assert warnings(found, None, day + datetime.timedelta(90)) == []
    assert warnings(found, None, day + datetime.timedelta(91)) == [
        "the price 'nvidia-h200* acme' is 91 days old (2026-01-31): check https://example.org"
    ]
    assert warnings(found, 30, day + datetime.timedelta(30)) == []
    with pytest.raises(UsageError, match="'nvidia-h200. acme' is 31 days old; --max-age accepts 30 days"):
        warnings(found, 30, day + datetime.timedelta(31))


def test_the_example_has_six_figures_without_date_and_source():
    found = {one.gpu: one for one in read(SEED).prices}
    assert {name: one.usd_per_hour for name, one in found.items()} == {
        "nvidia-b200*": 5.0, "nvidia-h100*": 3.5, "nvidia-a100*": 2.0, "nvidia-l40s*": 1.5, "nvidia-a10g*": 1.0,
        "*tesla-t4*": 0.5,
    }  # fmt: skip
    assert all(one.note == "no date, no source" and one.date is None and not one.source for one in found.values())
    assert warnings(list(found.values()), None) == ["6 prices without date and source: an example, not a fact"]
    with pytest.raises(UsageError, match="has no date; --max-age accepts 90 days"):
        warnings(list(found.values()), 90)


def test_the_template_is_an_empty_price_file():
    assert parse(template(), "template").prices == []


def test_the_place_of_the_file(prices, monkeypatch, tmp_path):
    monkeypatch.setenv("AIPERF_PRICES", str(tmp_path / "mine.toml"))
    assert default_path() == tmp_path / "mine.toml"
    found = prices("show")
    assert found.code == 2
    assert found.err == (
        f"aiperf: cannot read the price file '{tmp_path / 'mine.toml'}': No such file or directory. Write one with: "
        "aiperf prices add. An example without date and source: --prices seed\n"
    )
    monkeypatch.delenv("AIPERF_PRICES")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_path() == tmp_path / "aiperf" / "prices.toml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    found = prices("check")
    message = "aiperf: The user has no home folder with a price file. Name the file in AIPERF_PRICES.\n"
    assert (found.code, found.err) == (2, message)


def test_add_check_and_show(prices, tmp_path):
    file = tmp_path / "new" / "prices.toml"
    entry = (
        "add",
        "--prices",
        file,
        "--gpu",
        "nvidia-h200*",
        "--source",
        'a "quoted" \\ source',
        "--date",
        "2026-01-31",
    )
    found = prices(*entry, "--usd-per-hour", 3.2)
    assert (found.code, found.err) == (0, "")
    assert found.out == f"added to {file}: nvidia-h200*, 3.2 USD an hour of a gpu, 2026-01-31\n"
    before = file.read_bytes()
    refused = prices(*entry, "--usd-per-hour", -1)
    assert refused.code == 2
    assert "price 2 needs usd_per_hour, a number above 0; got -1.0." in refused.err
    assert file.read_bytes() == before
    assert prices("check", "--prices", file).code == 0
    assert prices("check", "--prices", file, "--max-age", 1).code == 2
    file.write_bytes(codecs.BOM_UTF8 + file.read_bytes().replace(b"\n", b"\r\n"))
    assert prices(*entry, "--usd-per-hour", 3.3).code == 0
    file.write_bytes(before)
    document = json.loads(prices("show", "--prices", file, "--json").out)
    assert document["details"]["prices"][0]["source"] == 'a "quoted" \\ source'
    assert prices("add", "--prices", "seed", "--gpu", "x", "--source", "y", "--usd-per-hour", 1).code == 2
    assert prices("add", "--gpu", "x", "--source", "y", "--usd-per-hour", 1, "--date", "soon").err == (
        "aiperf: --date takes a day such as 2026-01-31; got 'soon'.\n"
    )


def test_a_source_in_letters_that_the_locale_lacks(tmp_path):
    file = tmp_path / "prices.toml"
    command = [sys.executable, "-m", "aiperf_core", "prices", "add", "--prices", str(file), "--gpu", "x"]
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for source, code in ("café".encode(), 0), (b"caf\xe9", 2):
        line = [*command, "--source", source, "--usd-per-hour", "1"]
        done = subprocess.run(line, env=plain, capture_output=True, check=False)
        assert (done.returncode, b"Traceback" in done.stderr) == (code, False), done.stderr
    assert [price.source for price in read(str(file)).prices] == ["café"]


def test_show_names_age_and_source(prices):
    found = prices("show", "--prices", "seed")
    assert found.code == 0
    assert "Warning: 6 prices without date and source: an example, not a fact." in found.out
    assert "nvidia-b200*" in found.out
