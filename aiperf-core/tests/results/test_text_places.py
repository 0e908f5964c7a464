from aiperf_core.results.text_places import line_of


def test_lines_of_nested_places():
    text = "a = 1\n[b.c]\nd = [\n 1,\n]\n[[e]]\nf = 1\n[[e]]\nf = 2\n"
    places = {"a": 1, "b.c": 2, "b.c.d": 3, "b.c.d[1]": 3, "e[0].f": 7, "e[1]": 8, "e[1].f": 9, "nothing": None}
    assert {place: line_of(text, place, toml=True) for place in places} == places
    document = '{"a": 1,\n "b": {"c": [1,\n 2]}}'
    places = {"a": 1, "b": 2, "b.c": 2, "b.c[1]": 3, "nothing": None, "the top level": None}
    assert {place: line_of(document, place, toml=False) for place in places} == places
