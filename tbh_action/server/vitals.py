"""The signs of life of one server, kept until the rules ask for them. No network, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tbh_action.server.health import Probe
from tbh_action.server.hf_job import PaidJob
from tbh_action.server.supervisor_rules import Seen


@dataclass(kw_only=True, slots=True)
class Vitals:
    """What was seen of one server; times are monotonic seconds.

    `since` is when it was first known to run. A conversation is `asking` from its start to its end.
    """

    ours: bool
    since: float
    load_time: float
    failed_probes: int = 0
    failing_since: float | None = None
    refused_probes: int = 0
    failed_completions: int = 0
    asking: bool = False
    asked_at: float | None = None
    detail: str = ""

    def probed(self, probe: Probe, now: float, *, silent: bool) -> None:
        """A health probe has ended. `silent`: real calls get no answer, so that a good probe does
        not undo what failed conversations have shown."""
        # A refused token says nothing about the server's health, good or bad.
        self.refused_probes = self.refused_probes + 1 if probe.refused else 0
        if probe.refused:
            self.detail = probe.detail
            self.failing_since = self.failing_since or now
            return
        if not probe.ok:
            self.failed_probes += 1
            self.failing_since = self.failing_since or now
            self.detail = probe.detail
            return
        self.failed_probes = 0
        self.failing_since = None
        if not silent and not self.asking:
            self.failed_completions = 0
            self.asked_at = None

    def asked(self, probe: Probe, now: float) -> None:
        """A conversation has ended. A refused token is no sign of death here either."""
        self.asking = False
        self.asked_at = now
        if probe.ok:
            self.failed_completions = 0
        elif not probe.refused:
            self.failed_completions += 1
            self.detail = probe.detail

    def seen(
        self,
        now: float,
        *,
        job: PaidJob | None,
        away: bool,
        answered_ago: float | None,
        silent_for: float,
        successor: Literal["none", "starting", "ready"],
        relaunches: int,
    ) -> Seen:
        """The signs as the rules read them. `away`: the Hub could not be asked about `job`."""
        stage = None if job is None or (away and not job.ended) else job.stage
        lifetime = job.timeout if job else None
        left = None if job is None or lifetime is None else lifetime - self.age(job, now)
        return Seen(
            ours=self.ours,
            stage=stage,
            failed_probes=self.failed_probes,
            failing_for=0.0 if self.failing_since is None else now - self.failing_since,
            refused_probes=self.refused_probes,
            failed_completions=self.failed_completions,
            completion_age=0.0
            if self.asking
            else (None if self.asked_at is None else now - self.asked_at),
            answered_age=answered_ago,
            silent_for=silent_for,
            life_left=left,
            lifetime=lifetime,
            load_time=self.load_time,
            successor=successor,
            relaunches=relaunches,
        )

    def age(self, job: PaidJob, now: float) -> float:
        """Seconds that the job has run: what the Hub counts, or what we saw if that is more (its
        count is from the last look). This machine's clock may differ from the Hub's."""
        return max(job.seconds, now - self.since)
