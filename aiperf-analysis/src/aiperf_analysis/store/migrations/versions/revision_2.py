"""The newest result of each target, device, kind of machine and size; tombstones of removed folders."""

import sqlalchemy as sa
from alembic import op

from aiperf_analysis.store.tables import REAL, TEXT, WHOLE

revision = "2"
down_revision = "1"

# Of the results that were stored before this revision.
FILL = """
INSERT INTO newest (name, hardware, device, params_hash, target, created_s, bundle_name)
SELECT name, hardware, device, params_hash, id, created_s, bundle_name
FROM (
    SELECT target.name, target.hardware, target.device, target.params_hash, target.id, target.created_s,
        bundle.name AS bundle_name,
        row_number() OVER (
            PARTITION BY target.name, target.hardware, target.device, target.params_hash
            ORDER BY target.created_s DESC, bundle.name DESC, target.id
        ) AS place
    FROM target JOIN bundle ON bundle.number = target.bundle
    WHERE EXISTS (SELECT 1 FROM "row" WHERE "row".target = target.id)
) AS placed
WHERE place = 1
"""


def upgrade() -> None:
    """Make both tables, and fill the first."""
    op.create_table(
        "newest",
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("hardware", TEXT, primary_key=True),
        sa.Column("device", TEXT, primary_key=True),
        sa.Column("params_hash", TEXT, primary_key=True),
        sa.Column("target", WHOLE, sa.ForeignKey("target.id"), nullable=False),
        sa.Column("created_s", REAL, nullable=False),
        sa.Column("bundle_name", TEXT, nullable=False),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.execute(FILL)
    op.create_table(
        "tombstone",
        sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), primary_key=True),
        sa.Column("pruned_s", REAL, nullable=False),
        sa.Column("rule", TEXT, nullable=False),
        sqlite_strict=True,
    )
