"""Price files: reading, checking, and finding the price of a kind of machine."""

import datetime
import math
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from aiperf_core import atomic
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.folders import config_folder
from aiperf_core.names import words
from aiperf_core.targets import nearest
from aiperf_core.text_file import text_of
from aiperf_core.units import plural

SEED = "seed"
STALE_DAYS = 90
# Kinds of machine that are counted by GPUs: the names that NVIDIA's drivers give. Others are counted as a whole.
_GPUS = ("nvidia-", "tesla-")
_COUNT = re.compile(r"-x(\d+)$")
_PRICE_KEYS = (
    "gpu", "provider", "region", "commitment", "usd_per_hour", "per_hour", "currency", "per", "date", "source", "note",
)  # fmt: skip
_CURRENCY_KEYS = ("name", "usd", "date", "source")


@frozen(kw_only=True)
class Price:
    """An entry of a price file.

    gpu: a pattern of kinds of machine, such as `nvidia-h200*`.
    usd_per_hour: of one GPU, or of a machine.
    per: `gpu` or `machine`.
    date: when the price was read; None in the example of the package alone.
    exchanged: the currency that it was given in, with rate and date; empty for dollars.
    """

    gpu: str
    usd_per_hour: float
    per: str = "gpu"
    provider: str = ""
    region: str = ""
    commitment: str = ""
    date: datetime.date | None = None
    source: str = ""
    note: str = ""
    exchanged: str = ""

    @property
    def name(self) -> str:
        """The words that tell it from other entries."""
        parts = (self.gpu, self.provider, self.region, self.commitment)
        return " ".join(part for part in parts if part)

    def age_days(self, today: datetime.date | None = None) -> int | None:
        """Days since the price was read; None without a date."""
        return None if self.date is None else ((today or _today()) - self.date).days

    def count(self, hardware: str) -> int:
        """How often the price is paid for a kind of machine."""
        gpus = _COUNT.search(hardware)
        return int(gpus[1]) if gpus and self.per == "gpu" else 1

    def of_machine(self, hardware: str) -> float:
        """Dollars an hour of a kind of machine."""
        return self.usd_per_hour * self.count(hardware)

    def document(self) -> dict[str, Any]:
        """The entry as plain data, for results."""
        return {**asdict(self), "date": self.date.isoformat() if self.date else None}


@frozen
class Book:
    """The entries of a file. `file` names it in messages."""

    file: str
    prices: Sequence[Price]

    def find(self, hardware: str, **wanted: str | None) -> Price | None:
        """The price of a kind of machine; None without one.

        wanted: `provider`, `region` and `commitment`; None accepts any. Of several entries the newest counts. Raises
        UsageError where entries of several providers, regions or commitments remain.
        """
        prices = [
            price
            for price in self.prices
            if fnmatchcase(hardware, price.gpu)
            and (price.per == "machine" or hardware.startswith(_GPUS))
            and all(value is None or getattr(price, name) == value for name, value in wanted.items())
        ]
        for name in ("provider", "region", "commitment"):
            kinds = sorted({getattr(price, name) for price in prices})
            if len(kinds) > 1:
                raise UsageError(
                    f"{self.file} has several prices for '{hardware}', which differ in {name}: "
                    f"{', '.join(map(repr, map(words, kinds)))}. Choose with --{name}."
                )
        return max(prices, key=lambda price: price.date or datetime.date.min, default=None)


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def default_path() -> Path:
    """The price file of the user: `AIPERF_PRICES`, or `prices.toml` in the folder of settings. Raises UsageError."""
    given = os.environ.get("AIPERF_PRICES")
    if given:
        return Path(given)
    folder = config_folder()
    if folder is None:
        raise UsageError("The user has no home folder with a price file. Name the file in AIPERF_PRICES.")
    return folder / "prices.toml"


def read(name: str | None) -> Book:
    """The entries of a file, of the example (`seed`), or of the user's file (None). Raises UsageError."""
    if name == SEED:
        return parse((files(__package__) / "seed.toml").read_text(), "the example 'seed'", dated=False)
    path = Path(name) if name else default_path()
    try:
        text = text_of(path, path.read_bytes())
    except OSError as error:
        raise UsageError(
            f"cannot read the price file '{path}': {error.strerror or error}. Write one with: aiperf prices add. An "
            "example without date and source: --prices seed"
        ) from None
    return parse(text, f"'{path}'")


def parse(text: str, file: str, *, dated: bool = True) -> Book:
    """The entries of a text. Raises UsageError with the entry and what is accepted.

    dated: whether entries must have a date and a source.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is not TOML: {error}. A template: aiperf prices template") from None
    unknown = [key for key in document if key not in ("price", "currency")]
    if unknown:
        raise UsageError(f"{file} has '{words(unknown[0])}'; known are the tables [[price]] and [[currency]].")
    rates = _currencies(document.get("currency", []), file)
    entries = document.get("price", [])
    if not isinstance(entries, list):
        raise UsageError(f"{file} has [price]; write [[price]] with two brackets, once for each entry.")
    return Book(file, [_price(entry, f"{file}, price {at + 1}", rates, dated) for at, entry in enumerate(entries)])


@frozen
class _Rate:
    usd: float
    text: str


def _currencies(entries: Any, file: str) -> dict[str, _Rate]:
    if not isinstance(entries, list):
        raise UsageError(f"{file} has [currency]; write [[currency]] with two brackets, once for each currency.")
    rates = {}
    for at, entry in enumerate(entries):
        place = f"{file}, currency {at + 1}"
        _known(entry, _CURRENCY_KEYS, place)
        name, day = _text(entry, "name", place, needed=True), _day(entry, place)
        _text(entry, "source", place, needed=True)
        usd = _amount(entry, "usd", place)
        rates[name] = _Rate(usd, f"{name} at {usd:g} USD of {day.isoformat()}")
    return rates


def _price(entry: Any, place: str, rates: Mapping[str, _Rate], dated: bool) -> Price:
    _known(entry, _PRICE_KEYS, place)
    if ("usd_per_hour" in entry) == ("per_hour" in entry):
        raise UsageError(f"{place} needs usd_per_hour, or per_hour with a currency; it has both or neither.")
    exchanged = ""
    if "usd_per_hour" in entry:
        usd = _amount(entry, "usd_per_hour", place)
    else:
        currency = _text(entry, "currency", place, needed=True)
        if currency not in rates:
            raise UsageError(
                f"{place} is in '{words(currency)}', which has no [[currency]] entry with name, usd, date and source."
                f"{nearest(currency, rates)}"
            )
        usd, exchanged = _amount(entry, "per_hour", place) * rates[currency].usd, rates[currency].text
    per = _text(entry, "per", place) or "gpu"
    if per not in ("gpu", "machine"):
        raise UsageError(f"{place} has per='{words(per)}'; accepted: gpu, machine.")
    return Price(
        gpu=_text(entry, "gpu", place, needed=True),
        usd_per_hour=usd,
        per=per,
        provider=_text(entry, "provider", place),
        region=_text(entry, "region", place),
        commitment=_text(entry, "commitment", place),
        date=_day(entry, place) if dated else None,
        source=_text(entry, "source", place, needed=dated),
        note=_text(entry, "note", place),
        exchanged=exchanged,
    )


def _known(entry: Any, keys: Sequence[str], place: str) -> None:
    if not isinstance(entry, dict):
        raise UsageError(f"{place} is no table; write its keys below the heading.")
    for key in entry:
        if key not in keys:
            raise UsageError(f"{place} has '{words(key)}'.{nearest(key, keys)} Known: {', '.join(keys)}.")


def _text(entry: Mapping[str, Any], key: str, place: str, *, needed: bool = False) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str) or (needed and not value.strip()):
        raise UsageError(f"{place} needs {key}, a text that is not empty; got {words(repr(value))}.")
    return value


def _amount(entry: Mapping[str, Any], key: str, place: str) -> float:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value > 0):
        raise UsageError(f"{place} needs {key}, a number above 0; got {words(repr(value))}.")
    return float(value)


def _day(entry: Mapping[str, Any], place: str) -> datetime.date:
    value = entry.get("date")
    if isinstance(value, str):
        try:
            value = datetime.date.fromisoformat(value)
        except ValueError:
            value = None
    if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
        raise UsageError(f"{place} needs date, the day when it was read, such as date = 2026-01-31.")
    if value > _today():
        raise UsageError(f"{place} has the date {value.isoformat()}, which lies in the future.")
    return value


def warnings(prices: Sequence[Price], max_age: int | None, today: datetime.date | None = None) -> list[str]:
    """A sentence for each price that is older than `STALE_DAYS`, and one for those without a date.

    Raises UsageError for a price that is older than `max_age` days, or has no date, where a `max_age` is given.
    """
    sentences = []
    undated = sum(price.date is None for price in prices)
    for price in prices:
        age = price.age_days(today)
        if max_age is not None and (age is None or age > max_age):
            was = "has no date" if age is None else f"is {age} days old"
            raise UsageError(
                f"the price '{words(price.name)}' {was}; --max-age accepts {max_age} days. Read the price again and "
                "add it: aiperf prices add"
            )
        if age is not None and age > STALE_DAYS:
            source = words(price.source)
            sentences.append(f"the price '{words(price.name)}' is {age} days old ({price.date}): check {source}")
    if undated:
        sentences.append(f"{plural('price', undated)} without date and source: an example, not a fact")
    return sentences


def add(path: Path, entry: Mapping[str, Any]) -> Price:
    """Append an entry to a file, which is made where it is missing. Nothing is written unless the whole file is right.

    Raises UsageError for an entry or a file with a mistake, AiperfError where the file cannot be written.
    """
    try:
        before = text_of(path, path.read_bytes()) if path.exists() else template()
        text = f"{before.rstrip()}\n\n[[price]]\n" + "".join(
            f"{key} = {_toml(value)}\n" for key, value in entry.items()
        )
        # An argument in another encoding than the locale's keeps its bytes.
        data = text.encode(errors="surrogateescape")
        book = parse(text_of(path, data), f"'{path}'")
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(path, data)
    except OSError as error:
        raise AiperfError(
            f"cannot write '{path}': {error.strerror or error}. Name another file with --prices."
        ) from None
    return book.prices[-1]


def _toml(value: Any) -> str:
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str):
        escaped = "".join(
            f"\\u{ord(char):04x}" if ord(char) < 32 or char == "\x7f" else "\\" + char if char in '"\\' else char
            for char in value
        )
        return f'"{escaped}"'
    return repr(value)


def template() -> str:
    """The text of an empty price file with every key explained."""
    return (files(__package__) / "template.toml").read_text()
