"""A price file as a result."""

from collections.abc import Sequence

from aiperf_calc.prices.book import Book
from aiperf_core import units
from aiperf_core.report.result import Column, Figure, Record, Result, Table, counted


def listed(book: Book, warnings: Sequence[str]) -> Result:
    """Every entry with its age and its source."""
    records = [
        Record(
            {
                "gpu": price.gpu,
                "provider": price.provider or None,
                "region": price.region or None,
                "commitment": price.commitment or None,
                "usd_per_hour": Figure(value=price.usd_per_hour, unit="USD", certainty="counted"),
                "per": price.per,
                "age": counted(price.age_days(), "d", reason="no date"),
                "source": price.source or price.note or None,
                "note": price.exchanged or None,
            }
        )
        for price in book.prices
    ]
    columns = [
        Column("gpu", "machines"), Column("provider", "provider"), Column("region", "region"),
        Column("commitment", "commitment"), Column("usd_per_hour", "an hour", "figure"), Column("per", "of a"),
        Column("age", "age", "figure"), Column("source", "source"), Column("note", "currency"),
    ]  # fmt: skip
    return Result(
        analysis="prices",
        title=f"Prices of {book.file}",
        summary=[f"{units.plural('price', len(records))}.", *(f"Warning: {warning}." for warning in warnings)],
        tables=[Table("prices", "prices of machines", columns, records)],
        details={"prices": [price.document() for price in book.prices]},
    )
