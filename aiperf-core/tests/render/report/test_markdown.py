import pytest

from aiperf_core.render.report.markdown import code, plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a_b*c", r"a\_b\*c"),
        ("601.3 µs [599.5, 603.1]", r"601.3 µs \[599.5, 603.1\]"),
        ("1. item", r"1\. item"),
        ("- item", r"\- item"),
        ("# head", r"\# head"),
        ("<b> & `x` | y", r"\<b\> \& \`x\` \| y"),
        ("see https://evil.example", r"see https\://evil.example"),
        ("www.evil.example", r"www\.evil.example"),
        (":smile: at 14:25 @me $x$", r"\:smile: at 14:25 \@me \$x\$"),
        ("two\nlines\x1b[2J", "two lines"),
    ],
)
def test_text_is_only_text(text, expected):
    assert plain(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a_b", "`a_b`"), ("a`b", "``a`b``"), ("`a``", "``` `a`` ```"), ("a|b", r"`a\|b`"), ("", "` `")],
)
def test_code_ends_where_it_should(text, expected):
    assert code(text) == expected
