"""Files of the calculators as people and programs write them: marks, ragged rows, two names of a size, absurd sizes."""

import codecs
import json

import pytest

from aiperf_calc import sizing
from aiperf_calc.shape import of_config, read
from aiperf_calc.sizing_command import read_trace
from aiperf_core.errors import AiperfError, UsageError

LLAMA = {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
         "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256}  # fmt: skip
GPT_2 = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
CURVE = "rate_per_s,goodput_per_s\n4,4\n8,8\n"
HUGE = 10**400


def refused(call, *arguments):
    with pytest.raises(AiperfError) as caught:
        call(*arguments)
    return str(caught.value)


# --- text


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    for name, text in (("curve.csv", CURVE), ("config.json", json.dumps(LLAMA)), ("trace.txt", "1\n2\n"),
                       ("curve.json", '{"points": [{"rate_per_s": 4, "goodput_per_s": 4}]}')):  # fmt: skip
        (tmp_path / name).write_bytes(codecs.BOM_UTF8 + text.encode())
    assert [point.rate_per_s for point in sizing.read_curve(tmp_path / "curve.csv").points] == [4, 8]
    assert len(sizing.read_curve(tmp_path / "curve.json").points) == 1
    assert read(tmp_path / "config.json").layers == 32
    assert list(read_trace(tmp_path / "trace.txt")) == [1, 2]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize(("call", "name"), [(sizing.read_curve, "curve.csv"), (sizing.read_curve, "curve.json"),
                                            (read, "config.json"), (read_trace, "trace.txt")])  # fmt: skip
def test_other_encodings_with_a_mark_are_refused(tmp_path, encoding, call, name):
    path = tmp_path / name
    path.write_bytes(("\ufeff" + CURVE).encode(encoding))
    assert refused(call, path) == f"'{path}' is UTF-16 or UTF-32, not UTF-8. Save it as UTF-8."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rate_per_s,goodput_per_s\n4,4\n8\n",
         ", row 2 below the header has 1 value for 2 columns. Give a value, which may be empty, for each column."),
        ("rate_per_s,goodput_per_s\n\n4,4,9\n",
         ", row 1 below the header has 3 values for 2 columns. Give a value, which may be empty, for each column."),
        ("rate_per_s,goodput_per_s,rate_per_s\n4,4,5\n", " has the column 'rate_per_s' twice. Remove the wrong one."),
        ('rate_per_s,goodput_per_s\n4,"4\n', " is not CSV: unexpected end of data."),
        ("", " has no points. A point has rate_per_s and goodput_per_s; optional: goodput_low, goodput_high, "
             "residence_s."),
    ],
)  # fmt: skip
def test_ragged_tables_are_refused(tmp_path, text, message):
    path = tmp_path / "curve.csv"
    path.write_text(text)
    assert refused(sizing.read_curve, path) == f"'{path}'{message}"


def test_a_key_that_an_object_has_twice_is_refused(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA)[:-1] + ', "num_hidden_layers": 2}')
    assert refused(read, path) == f"'{path}' has the key 'num_hidden_layers' twice in one object. Remove the wrong one."


# --- names of sizes


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (GPT_2 | {"num_hidden_layers": 2},
         "the config has num_hidden_layers=2 and n_layer=12, which are two names of one size. Remove the wrong one."),
        (GPT_2 | {"hidden_size": 1},
         "the config has hidden_size=1 and n_embd=768, which are two names of one size. Remove the wrong one."),
        (GPT_2 | {"n_ctx": 2048},
         "the config has n_positions=1024 and n_ctx=2048, which are two names of one size. Remove the wrong one."),
        (GPT_2 | {"max_position_embeddings": 2048},
         "the config has max_position_embeddings=2048; accepted is 1024."),
        (LLAMA | {"torch_dtype": "float16", "dtype": "bfloat16"},
         "the config has torch_dtype='float16' and dtype='bfloat16', which are two names of one size. Remove the wrong "
         "one."),
        (LLAMA | {"n_kv_heads": 4},
         "the config has num_key_value_heads=8 and n_kv_heads=4, which are two names of one size. Remove the wrong "
         "one."),
        *((LLAMA | {"num_key_value_heads": count},
           f"{count} heads of keys and values do not divide 32 heads of queries; accepted is a divisor of 32. Correct "
           "'num_key_value_heads' of the config, or --kv-heads and --heads.") for count in (7, 64)),
    ],
)  # fmt: skip
def test_sizes_that_contradict_each_other(config, message):
    assert refused(of_config, config) == message


def test_names_that_agree_or_are_not_set_are_accepted():
    assert of_config(GPT_2 | {"num_hidden_layers": 12, "hidden_size": None, "n_ctx": 1024}).layers == 12
    assert of_config(LLAMA | {"n_layer": 32, "dtype": "bfloat16", "torch_dtype": None}).layers == 32


@pytest.mark.parametrize("heads", [7, 64])
def test_options_that_contradict_each_other(calc, heads):
    found = calc("kv-cache", "--layers", 2, "--hidden", 4096, "--heads", 32, "--kv-heads", heads)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"aiperf: {heads} heads of keys and values do not divide 32 heads of queries;")


def test_metadata_of_real_configs_changes_no_sizes():
    gpt2 = {"n_special": 0, "predict_special_tokens": True, "summary_activation": None, "resid_pdrop": 0.1,
            "task_specific_params": {"text-generation": {"do_sample": True}}}  # fmt: skip
    smol = {"is_llama_config": True, "transformers.js_config": {"dtype": "q4"}, "rope_interleaved": False}
    general = {"bad_words_ids": None, "num_beams": 1, "temperature": 1.0, "pruned_heads": {}, "id2label": {"0": "A"},
               "decoder_start_token_id": None, "tie_encoder_decoder": False, "num_return_sequences": 1}  # fmt: skip
    assert of_config(GPT_2 | gpt2 | general) == of_config(GPT_2)
    assert of_config(LLAMA | smol | general) == of_config(LLAMA)
    assert refused(of_config, LLAMA | {"pruned_heads": {"0": [1]}}) == (
        "the config has keys that are not known for 'llama' and may change the sizes: 'pruned_heads'. If they do not: "
        "--ignore pruned_heads"
    )


def test_options_that_a_type_has_no_use_for():
    mamba = {"model_type": "mamba", "num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 9, "state_size": 16,
             "conv_kernel": 4, "expand": 2, "time_step_rank": 4}  # fmt: skip
    assert of_config(mamba, given={"layers": 3, "hidden": 32}).layers == 3
    message = refused(of_config, mamba, "the config", {"kv_heads": 4})
    assert message == "--kv-heads is no size of the type 'mamba'. Leave it out."
    falcon = {"model_type": "falcon", "num_hidden_layers": 2, "hidden_size": 64, "n_head": 8, "vocab_size": 9}
    assert [of_config(falcon, given=given).kv_heads for given in ({}, {"kv_heads": 4})] == [1, 4]


# --- absurd sizes


@pytest.mark.parametrize("key", ["num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size"])
def test_absurd_sizes_of_a_config(key):
    most = "100,000" if key == "num_hidden_layers" else "1,000,000,000"
    assert refused(of_config, LLAMA | {key: HUGE}) == (
        f"the config has {key}=1{'0' * 39}... (401 characters); accepted is a whole number from 1 to {most}."
    )


def test_a_number_of_more_digits_than_python_reads(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA).replace("4096", "9" * 5000))
    message = f"'{path}' has a number of 5,000 digits. Give the config.json of a model."
    assert refused(read, path) == message


@pytest.mark.parametrize(
    "arguments",
    [
        *(("kv-cache", option, number) for number in (HUGE, "9" * 5000, "1e400")
          for option in ("--layers", "--hidden", "--heads", "--kv-heads", "--head-dim", "--window", "--tokens",
                         "--batch", "--page", "--scale-group", "--scale-bytes", "--memory")),
        *(("model", option, HUGE) for option in ("--layers", "--tokens", "--batch", "--ranks")),
        *(("parallel", "--memory", "80GiB", option, HUGE) for option in ("--gpus", "--micro-batches", "--top")),
        ("parallel", "--gpus", 8, "--memory", f"{HUGE}PiB"),
    ],
)  # fmt: skip
def test_absurd_sizes_of_options(calc, tmp_path, arguments):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    found = calc(arguments[0], "--config", file, *arguments[1:])
    assert (found.code, found.out) == (2, "")
    assert found.err.count("\n") == 1
    assert found.err.startswith("aiperf: ")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--watts", "1e308", "--watts must lie between 1e-15 and 1e+15; got 1e+308."),
        ("--tokens-per-second", "1e-320", "--tokens-per-second must lie between 1e-15 and 1e+15; got 9.99989e-321."),
        ("--pue", "inf", "the PUE must be a number above 0; got inf."),
        ("--utilisation", "1e-320", "the utilisation must lie between 1e-15 and 1e+15; got 9.99989e-321."),
    ],
)
def test_absurd_sizes_of_costs(calc, option, value, message):
    given = {"--watts": 5, "--tokens-per-second": 9, "--tariff": 0.1, "--rate": 2, option: value}
    found = calc("cost-per-token", "--json", *(part for pair in given.items() for part in pair))
    assert (found.code, found.out, found.err) == (2, "", f"aiperf: {message}\n")


def test_the_largest_sizes_that_are_accepted(calc, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA | {"num_hidden_layers": 10**5, "vocab_size": 10**9}))
    most = ("--tokens", 10**12, "--batch", 10**12)
    for arguments in (("kv-cache", "--page", 10**12, "--memory", "1GiB"), ("model", "--ranks", 10**12),
                      ("parallel", "--gpus", 8, "--memory", "80GiB", "--train", "--micro-batches", 10**12)):  # fmt: skip
        found = calc(*arguments, "--config", file, *most)
        assert (found.code, found.err) == (int(arguments[0] == "parallel"), "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"points": [{"rate_per_s": HUGE, "goodput_per_s": 1}]},
         ", point 1: rate_per_s is larger than 1e+12, the most that is accepted. Correct it."),
        ({"limit_s": HUGE}, ": limit_s is larger than 1e+12, the most that is accepted. Correct it."),
        ({"steps": {"batch": [1], "seconds": [1], "per_request": HUGE}},
         ": 'steps' has batch (rising whole numbers from 1), seconds (as many, above 0) and per_request (from 1)."),
    ],
)  # fmt: skip
def test_absurd_sizes_of_a_curve(tmp_path, changes, message):
    path = tmp_path / "curve.json"
    path.write_text(json.dumps({"points": [{"rate_per_s": 4, "goodput_per_s": 4}]} | changes))
    assert refused(sizing.read_curve, path) == f"'{path}'{message}"


def test_more_replicas_than_can_be_counted_on():
    assert refused(sizing.replicas_for, 1e308, 1e308, 4) == (
        "more than 100,000 replicas would be needed for 1e+308 requests/s with a headroom of 1e+308, at 4 requests/s "
        "each. Lower the peak or the headroom."
    )
    assert refused(sizing.with_spares, 3, 1e-300, 0.999) == (
        "more than 100,000 replicas would be needed for 0.999 with 1e-300 each. Lower the wish."
    )


def test_usage_errors_of_files_end_with_2(calc, tmp_path):
    path = tmp_path / "curve.csv"
    path.write_bytes(("\ufeff" + CURVE).encode("utf-16"))
    with pytest.raises(UsageError):
        sizing.read_curve(path)
    assert calc("sizing", path, "--peak", 4).code == 2
