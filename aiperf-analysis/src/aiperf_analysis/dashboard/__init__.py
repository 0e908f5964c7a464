"""The dashboard: pages and a REST API of results, on a server of this machine. It changes nothing that it shows.

From a request down to the results:

    app.py          makes the application: routes from the registry, errors as pages or problem documents
    guard.py        what every request passes: host names, tokens, cookies, sizes, headers
    registry.py     the records `Page` and `Endpoint`, from which routes, navigation and the OpenAPI document are made
    asked.py        what a handler gets (`Asked`: the site, the query) and gives (`View` of a page, `Answer` of the API)
    exporting.py    all pages as a static site, by the application in this process
    site.py         what all requests share: the source, and results of analyses, kept until the source changes
    source.py       where results come from: a folder of bundles or a store, with one interface
    filters.py      the part of a query that selects rows, as the options of `aiperf analyze` do
    shown.py        a `Result`, its tables and its pictures as data of templates
    pages/          a file each page, with a function `page(asked) -> View`; `pages.PAGES` lists them
    api/            a file each group of endpoints, with functions `(asked) -> Answer`; `api.ENDPOINTS` lists them
    templates/      Jinja2; `base.html.jinja` has navigation and footer, `parts.html.jinja` tables and pictures
    static/         a style sheet and a script module; the browser loads nothing else

To add a page: a file in `pages/`, a record in `pages.PAGES`. An analysis of any plugin has a page and an endpoint
without either; a record of `pages.PAGES` with its name in `analysis` replaces that page.
Handlers run in threads and may be called at once; an `async` handler runs in the event loop and may return a Starlette
`Response` of its own, such as a stream of events.
"""
