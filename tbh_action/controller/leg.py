"""One leg of a run while it lives: who may start, what has ended, when to stop.

The decisions are pure functions elsewhere (schedule, concurrency, watchdog, cost, failures); this
is where they meet the clock, the plugin's events and the files of the run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tbh_action.controller import state as run_state
from tbh_action.controller.control import Control
from tbh_action.controller.journal import Journal
from tbh_action.controller.state import RunState
from tbh_action.durations import format_duration
from tbh_action.harbor.tasks import TaskInfo
from tbh_action.harbor.trial import read_trial
from tbh_action.policy import cost, watchdog
from tbh_action.policy.concurrency import Limit, first_limit, on_pass_start, on_trial_end, room
from tbh_action.policy.schedule import Admission, Now, admit, drained, expected_seconds, fits, order
from tbh_action.rundir import RunDir, utc_now
from tbh_action.scoring import ledger
from tbh_action.scoring.failures import Interval, Judgement, judge, setup_burst
from tbh_action.scoring.ledger import Attempt
from tbh_action.server.hf_job import PaidJob
from tbh_action.spec import RunSpec

if TYPE_CHECKING:
    from tbh_action.gateway import Gateway
    from tbh_action.server.supervisor import Supervisor

# A pass is drained only when it looks so twice: Harbor takes a moment from one trial to the next.
_DRAINED_TICKS: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What bounds a leg: `deadline` for its last trial (this machine's monotonic seconds), and USD
    for the whole run."""

    deadline: float | None = None
    max_cost: float | None = None


class Leg:
    """The live view of one leg. `stop` is the reason why it ends early, None while it goes on."""

    def __init__(
        self,
        *,
        spec: RunSpec,
        run_dir: RunDir,
        state: RunState,
        journal: Journal,
        tasks: Mapping[str, TaskInfo],
        limits: Limits,
        earlier: Mapping[str, float],
        key: str,
    ) -> None:
        self.key = key
        self.spec = spec
        self.run_dir = run_dir
        self.state = state
        self.journal = journal
        self.tasks = tasks
        self.limits = limits
        self.limit = first_limit(spec.min_concurrent, spec.n_concurrent)
        self.expected = expected_seconds(
            tasks.values(),
            earlier=earlier,
            multiplier=spec.agent_timeout_multiplier,
            cap=spec.agent.max_time,
        )
        self.stop: str | None = None
        self.supervisor: Supervisor | None = None
        self.gateway: Gateway | None = None
        self.control = Control(key, first=self.first, admit=self.admit, changed=self.changed)
        self.pass_number = 0
        self.earlier_passes = len(state.passes)
        self._judged: list[Judgement] = []
        self._attempts = {a.trial: a for a in ledger.read_attempts(run_dir.attempts)}
        self._drained_ticks = 0
        self._ordered: dict[str, float] = {}
        self._ended_by_us: dict[str, str] = {}
        self._rates = cost.rates(
            state.prices,
            server_flavor=spec.server.flavor if spec.server else None,
            replicas=spec.server.replicas if spec.server else 0,
            sandbox_flavor=spec.environment.flavor,
        )
        self._log_limit()

    def follow(self, supervisor: Supervisor, gateway: Gateway) -> None:
        """Whose word counts on whether a server is up, and since when it was not."""
        self.supervisor, self.gateway = supervisor, gateway

    def outages(self) -> list[Interval]:
        """When no server answered, as gateway and supervisor saw it."""
        seen = list(self.gateway.outages) if self.gateway else []
        return seen + (list(self.supervisor.intervals) if self.supervisor else [])

    # What the gate asks.

    def first(self) -> list[str]:
        """The order of the tasks: what fits into this leg first, the longest of it first."""
        now = time.monotonic()
        names = order(list(self.tasks), self.expected)
        fitting = [
            n for n in names if fits(self.expected[n], at=now, deadline=self.limits.deadline)
        ]
        chosen = set(fitting)
        ordered = fitting + [name for name in names if name not in chosen]
        return [name.rsplit("/", 1)[-1] for name in ordered]

    def too_short(self) -> str | None:
        """Why nothing that is left can be done in this leg, None when something can."""
        scored = Counter(a.task for a in self._attempts.values() if a.scored)
        left = [name for name in self.tasks if scored[name] < self.spec.n_attempts]
        now = time.monotonic()
        if any(fits(self.expected[name], at=now, deadline=self.limits.deadline) for name in left):
            return None
        shortest = min((self.expected[name] for name in left), default=0.0)
        return (
            f"none of the {len(left)} tasks that are left fits into this leg (the shortest is "
            f"expected to take {format_duration(shortest)}); give it more --time-budget"
        )

    def admit(self, task: str) -> Admission:
        """Whether a trial of `task` may start now."""
        now = time.monotonic()
        running = self.control.running
        expected = self.expected.get(task, 0.0)
        money = cost.budget(
            self.spent(),
            self.limits.max_cost,
            rate=self._rates,
            running=[
                max(0.0, self.expected.get(trial.task, 0.0) - (now - (trial.admitted_at or now)))
                for trial in running
            ],
            candidate=expected,
        )
        if money.state != "open":
            return Admission(go=False, reason=money.reason, final=not running)
        return admit(
            Now(
                at=now,
                running=len(running),
                limit=room(self.limit, [now - (trial.admitted_at or now) for trial in running]),
                server_up=self.supervisor is not None and self.supervisor.up,
                stop=self.stop,
                deadline=self.limits.deadline,
            ),
            expected=expected,
        )

    def spent(self) -> float | None:
        """USD so far, None when a price is unknown."""
        return cost.spend(self.state.paid, self.state.prices, datetime.now(UTC)).total_usd

    # What the plugin tells.

    def changed(self, event: dict[str, Any]) -> None:
        """Every event of the plugin passes here, in order."""
        self.journal.event({"pass": self.pass_number} | event)
        kind, trial = event.get("event"), str(event.get("trial"))
        if kind == "sandbox":
            self._sandbox_started(trial, str(event.get("job_id")))
        elif kind == "end":
            self._sandbox_ended(trial)
            self._ended(trial)

    def _sandbox_started(self, trial: str, job_id: str) -> None:
        self.record_paid(
            PaidJob(
                kind="sandbox",
                nonce="",
                flavor=self.spec.environment.flavor,
                job_id=job_id,
                namespace=self.spec.namespace,
                stage="RUNNING",
                started_at=utc_now(),
                trial=trial,
            )
        )

    def _sandbox_ended(self, trial: str) -> None:
        for job in self.state.sandboxes:
            if job.trial == trial and not job.ended:
                seconds = cost.running_seconds(job, datetime.now(UTC))
                self.record_paid(replace(job, stage="COMPLETED", seconds=seconds))

    def record_paid(self, job: PaidJob) -> None:
        """A paid job started or changed: on disk before anything else happens."""
        self.state.record(job)
        self.save()

    def save(self) -> None:
        """Writes `state.json`. A full disk is said, and must not end what is being earned."""
        self.state.spend_usd = self.spent()
        try:
            run_state.save(self.run_dir, self.state)
        except OSError as error:
            self.journal.say(f"cannot write state.json: {error.strerror}")

    def _ended(self, trial: str) -> None:
        """Reads, judges and records a trial, and draws the consequences."""
        directory = self.run_dir.harbor_job / trial
        read = read_trial(directory)
        judgement = judge(read, outages=self.outages(), ended=self._ended_by_us.get(trial))
        attempt = ledger.attempt_of(
            read,
            judgement,
            pass_number=self.pass_number,
            directory=str(directory.relative_to(self.run_dir.root)),
        )
        self._attempts[trial] = attempt
        try:
            ledger.append_attempts(self.run_dir.attempts, [attempt])
        except OSError as error:
            self.journal.say(f"cannot write the ledger ({error.strerror}); it is repaired later")
        self._judged.append(judgement)
        self._adapt(trial, judgement)
        self._tell(attempt)
        burst = setup_burst(self._judged)
        if burst is not None and self.stop is None:
            self.stop = burst
            self.journal.say(f"stopping: {burst}")

    def _adapt(self, trial: str, judgement: Judgement) -> None:
        now = time.monotonic()
        live = self.control.live.get(trial)
        started = live.admitted_at if live and live.admitted_at is not None else now
        self._new_limit(
            on_trial_end(
                self.limit,
                "none" if judgement.scored else judgement.failure_class,
                running=len(self.control.running),
                now=now,
                seconds=now - started,
            )
        )

    def _new_limit(self, limit: Limit) -> None:
        before, self.limit = self.limit.value, limit
        if limit.value != before:
            self._log_limit()
            self.journal.say(f"concurrency {limit.reason}")
            self.control.recheck()

    def _log_limit(self) -> None:
        self.journal.event(
            {"event": "concurrency", "limit": self.limit.value, "reason": self.limit.reason}
        )

    def _tell(self, attempt: Attempt) -> None:
        if attempt.scored:
            mark, word = ("✓", "passed") if attempt.passed else ("✗", "failed")
        else:
            mark, word = "!", f"errored ({attempt.failure_class})"
        took = ""
        if attempt.started_at and attempt.finished_at:
            seconds = (attempt.finished_at - attempt.started_at).total_seconds()
            took = f"  {format_duration(max(seconds, 0.0))}"
        why = f"  {attempt.reason}" if attempt.reason else ""
        spent = self.spent()
        money = f"  ${spent:.2f}" if spent else ""
        self.journal.say(f"{mark} {attempt.task}  {word}{took}  [{self._counts()}]{money}{why}")

    def _counts(self) -> str:
        """How far the run is, by task and attempt slot: the best of each slot's trials."""
        planned = len(self.tasks) * self.spec.n_attempts
        scored = [attempt for attempt in self._attempts.values() if attempt.scored]
        passed = sum(attempt.passed for attempt in scored)
        return f"{len(scored)}/{planned} scored, {passed} passed"

    # What is looked at every second.

    def tick(self, harbor_started_at: float) -> str | None:
        """Ends stuck trials; returns why the pass has to be stopped, None while it has not."""
        now = time.monotonic()
        watched = self._watched()
        for stuck in watchdog.stuck_trials(watched, now):
            if stuck.trial not in self._ordered:
                self._ordered[stuck.trial] = now
                self._ended_by_us[stuck.trial] = stuck.reason
                self.control.cancel(stuck.trial)
                self.journal.say(f"ending {stuck.trial}: {stuck.reason}")
        hung = watchdog.harbor_hung(
            watchdog.HarborView(
                at=now,
                started_at=harbor_started_at,
                heard_at=self.control.heard_at,
                trials=watched,
                ordered=self._ordered,
            )
        )
        money = cost.budget(self.spent(), self.limits.max_cost)
        if money.state == "drain" and self.stop is None:
            self.stop = money.reason
        late = self.limits.deadline is not None and now > self.limits.deadline
        if late and self.stop is None:
            self.stop = "the leg's time is used up (--time-budget)"
        drained_reason = self._drained()
        if drained_reason is not None and self.stop is None:
            self.stop = drained_reason  # another pass would wait for the same trials again
        failed = self.supervisor.failed if self.supervisor else None
        return hung or self.stop or failed

    def _drained(self) -> str | None:
        waiting = self.control.waiting
        if waiting and drained(len(self.control.running), waiting):
            self._drained_ticks += 1
        else:
            self._drained_ticks = 0
        return waiting[0].reason if self._drained_ticks >= _DRAINED_TICKS else None

    def _watched(self) -> list[watchdog.Watched]:
        watched = []
        for trial in self.control.live.values():
            task = self.tasks.get(trial.task)
            if task is not None:
                limits = watchdog.phase_limits(
                    task,
                    multiplier=self.spec.agent_timeout_multiplier,
                    cap=self.spec.agent.max_time,
                )
                watched.append(
                    watchdog.Watched(
                        trial=trial.trial, phase=trial.phase, since=trial.since, limits=limits
                    )
                )
        return watched

    def new_pass(self, number: int) -> None:
        """Forgets the live trials of the last Harbor process."""
        self.pass_number = number
        self._drained_ticks = 0
        self._ordered.clear()
        self._ended_by_us.clear()
        self.control.new_pass()
        self._new_limit(on_pass_start(self.limit, number=number))
