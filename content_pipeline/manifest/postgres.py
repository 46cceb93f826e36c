"""An engine for a Postgres database that notices a host which vanished, and shows no password."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from content_pipeline.settings.database_url import is_harmless

# A host that vanishes without a word is noticed in a minute, not in the two hours that TCP allows itself; and if it
# vanishes while something is on its way, in 20 s, not in the quarter of an hour for which TCP sends that again.
_CONNECTION = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


def postgres_engine(url: sa.URL, **given: Any) -> sa.Engine:
    """`given` are SQLAlchemy's own arguments of an engine."""
    wanted: dict[str, Any] = {name: value for name, value in _CONNECTION.items() if name not in url.query}
    # SQLAlchemy hides the password before the host, and shows those among the options: they go another way.
    secret = {name: value if isinstance(value, str) else value[-1] for name, value in url.query.items()}
    secret = {name: value for name, value in secret.items() if not is_harmless(name)}
    return sa.create_engine(url.difference_update_query(list(secret)), connect_args={**wanted, **secret}, **given)
