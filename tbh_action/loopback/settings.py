"""What the loopback Hub can be told when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Times are seconds, and are divided by `speed`. `user` and `orgs` are the namespaces that
    the token may use."""

    token: str = field(repr=False)
    admin_key: str = field(repr=False)
    user: str = "demo"
    orgs: tuple[str, ...] = ("demo-org",)
    seed: int = 0
    speed: float = 1.0
    server_scheduling: float = 1.0
    sandbox_scheduling: float = 0.2
    model_loading: float = 1.5
    model_thinking: float = 0.1

    @property
    def user_id(self) -> str:
        """An id in the Hub's form, the same for the same name."""
        return self.user.encode().hex().ljust(24, "0")[:24]

    def scaled(self, seconds: float) -> float:
        """`seconds` at this Hub's speed."""
        return seconds / self.speed
