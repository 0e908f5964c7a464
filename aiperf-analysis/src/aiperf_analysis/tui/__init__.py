"""Results in a terminal: `aiperf tui`.

Every screen shows a `Result`: those of `pages` about runs, rows, machines and comparisons, and those of the analyses.
`app` and the modules beside it show them with Textual; `simple` shows the same with a numbered menu of plain lines.

    source      the rows, from a folder or a store
    pages       runs, rows, machines and comparisons as results
    running     the runs that go on, as a result
    asking      an analysis by its command line
    pictures    pictures as lines of characters
    samples     the samples of a row as lines
    records     a record as lines
    grid        the table of the screens
    screen      a screen that shows a result
    places      the screens by name
    app         the application
    simple      the numbered menu
"""
