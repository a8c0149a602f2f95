"""The `Retry-After` header (RFC 9110, 10.2.3)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

_LONGEST: Final = 3600.0


def parse_retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Seconds from a `Retry-After` header (a number or a date), at most an hour; None when absent
    or unreadable."""
    if not value:
        return None
    try:
        if re.fullmatch(r"-?\d+(\.\d+)?", value.strip()):
            seconds = float(value)
        else:
            moment = parsedate_to_datetime(value)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            seconds = (moment - (now or datetime.now(UTC))).total_seconds()
    except ValueError:
        return None
    return min(_LONGEST, max(0.0, seconds))
