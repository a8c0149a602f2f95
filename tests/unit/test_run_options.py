"""Recipe < tbh.toml < TBH_* < flag, for every option that decides a spec."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tbh_action.cli import main
from tbh_action.commands.run import run_command
from tbh_action.commands.run_options import SPEC_KEYS, Duration, Finite, config_defaults
from tbh_action.errors import SpecError

SEED = "qwen3.8-27b-fp8"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, and no variables of ours."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("TBH_"):
            monkeypatch.delenv(name)


def tbh(*arguments: str, toml: str = "", **env: str) -> tuple[int, str]:
    """Exit code and output of `tbh ARGUMENTS` beside a tbh.toml."""
    if toml:
        Path("tbh.toml").write_text(toml, encoding="utf-8")
    done = CliRunner().invoke(main, arguments, env=env)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def spec(*arguments: str, toml: str = "", **env: str) -> dict[str, Any]:
    """What `tbh run --recipe SEED ARGUMENTS` would run."""
    code, said = tbh("run", "--recipe", SEED, *arguments, "--print-spec", toml=toml, **env)
    assert code == 0, said
    found: dict[str, Any] = json.loads(said)["spec"]
    return found


def test_precedence__each_layer_wins_over_the_one_before() -> None:
    toml = "n-concurrent = 5"
    env = {"TBH_N_CONCURRENT": "6"}
    assert spec()["n_concurrent"] == 3
    assert spec(toml=toml)["n_concurrent"] == 5
    assert spec(toml=toml, **env)["n_concurrent"] == 6
    assert spec("--n-concurrent", "7", toml=toml, **env)["n_concurrent"] == 7
    assert spec("--n-concurrent", "7", toml=toml)["n_concurrent"] == 7


# flag → (words of a flag, place in the spec, what is found there)
CASES: dict[str, tuple[str, str, Any]] = {
    "model-revision": ("abc", "model.revision", "abc"),
    "benchmark": ("terminal-bench-3.0", "benchmark.name", "terminal-bench-3.0"),
    "path": ("/tasks", "benchmark.path", "/tasks"),
    "repo": ("https://h.example/o/b", "benchmark.repo", "https://h.example/o/b"),
    "dataset": ("org/set", "benchmark.dataset", "org/set"),
    "benchmark-revision": ("abc", "benchmark.revision", "abc"),
    "include-task": ("a*", "benchmark.include_task", ["a*"]),
    "exclude-task": ("a*", "benchmark.exclude_task", ["a*"]),
    "n-tasks": ("2", "benchmark.n_tasks", 2),
    "n-attempts": ("2", "n_attempts", 2),
    "n-concurrent": ("2", "n_concurrent", 2),
    "min-concurrent": ("2", "min_concurrent", 2),
    "max-passes": ("2", "max_passes", 2),
    "agent-timeout-multiplier": ("2.5", "agent_timeout_multiplier", 2.5),
    "max-agent-time": ("1h", "agent.max_time", 3600),
    "max-call": ("1h", "max_call", 3600),
    "agent": ("claude-code", "agent.name", "claude-code"),
    "ak": ("x=1", "agent.kwargs.x", 1),
    "env": ("docker", "environment.type", "docker"),
    "ek": ("flavor=cpu-basic", "environment.kwargs.flavor", "cpu-basic"),
    "flavor": ("a100", "server.flavor", "a100"),
    "namespace": ("org", "namespace", "org"),
    "server-timeout": ("8h", "server.timeout", 28_800),
    "schedule-timeout": ("2h", "server.schedule_timeout", 7200),
    "load-timeout": ("2h", "server.load_timeout", 7200),
    "replicas": ("2", "server.replicas", 2),
    "mount-model": ("true", "server.mount_model", True),
}


def test_cases__name_every_option_of_a_spec() -> None:
    others = {"recipe", "model", "endpoint"}
    assert {key.replace("-", "_") for key in CASES} | others == SPEC_KEYS


@pytest.mark.parametrize("source", ["flag", "variable", "file"])
@pytest.mark.parametrize("key", CASES)
def test_option__by_flag_variable_and_file(key: str, source: str) -> None:
    word, place, value = CASES[key]
    switch = key == "mount-model"
    if source == "flag":
        found: Any = spec(f"--{key}", *([] if switch else [word]))
    elif source == "variable":
        found = spec(**{f"TBH_{key.upper().replace('-', '_')}": word})
    else:
        found = spec(toml=f"{key} = {word if switch else json.dumps(word)}")
    for part in place.split("."):
        found = found[part]
    assert found == value


@pytest.mark.parametrize("key", CASES)
def test_option__an_empty_variable_is_not_given(key: str) -> None:
    assert spec(**{f"TBH_{key.upper().replace('-', '_')}": ""}) == spec()


def test_option__an_empty_variable_does_not_hide_the_file() -> None:
    assert spec(toml="n-concurrent = 5", TBH_N_CONCURRENT="")["n_concurrent"] == 5


@pytest.mark.parametrize("variable", ["a*\nb", "\n a* \n\n b\n", "a*\r\nb\r\n"])
def test_option__a_variable_holds_one_value_a_line(variable: str) -> None:
    found = spec(TBH_INCLUDE_TASK=variable, TBH_AK="x=a b\ny=1")
    assert found["benchmark"]["include_task"] == ["a*", "b"]
    assert found["agent"]["kwargs"] == {"reasoning_effort": "low", "x": "a b", "y": 1}


def test_option__several_flags_replace_the_variables() -> None:
    found = spec("--include-task", "c", "--include-task", "d e", TBH_INCLUDE_TASK="a\nb")
    assert found["benchmark"]["include_task"] == ["c", "d e"]


@pytest.mark.parametrize("toml", ['include-task = ["a", "b"]', 'include_task = ["a", "b"]'])
def test_config__dashes_or_underscores(toml: str) -> None:
    assert spec(toml=toml)["benchmark"]["include_task"] == ["a", "b"]


def test_config__one_text_where_several_could_be() -> None:
    assert spec(toml='include-task = "a"')["benchmark"]["include_task"] == ["a"]


def test_config__keys_of_other_commands_and_every_group_of_options() -> None:
    lines = ['older-than = "6h"', 'fail-on = "below:0.5"', "max-cost = 5", 'time-budget = "5h"']
    lines += ['comment = "never"', 'name = "x"', 'baseline = "runs"', "keep-server = true"]
    assert spec(toml="\n".join(lines)) == spec()


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("n-concurent = 3", "unknown key 'n-concurent'; did you mean 'n-concurrent'?"),
        ("zzz = 3", "unknown key 'zzz'"),
        ("n-concurrent = 3\nhf_token = 'hf_secret'", "unknown key 'hf-token'"),
        ("[agent]\nname = 'x'", "'agent' is a table"),
        ("n-concurrent = ", "Cannot read"),
        ("a = '\x00'", "Cannot read"),
        ("n-concurrent = [1]", "'n-concurrent' is a list, and this flag takes one value"),
        ("include-task = [['a']]", "'include-task' is a list in a list"),
        ('run-dir = "a\\u0000b"', "'run-dir' holds a NUL character"),
    ],
)
@pytest.mark.parametrize("command", [("run", "--print-spec"), ("score", "."), ("recipes",)])
def test_config__mistakes_are_one_line_for_every_command(
    toml: str, said: str, command: tuple[str, ...]
) -> None:
    code, output = tbh(*command, toml=toml)
    assert code == 2
    assert said in output
    assert output.count("\n") == 1
    assert "hf_secret" not in output


def test_config__a_wrong_value_names_its_option() -> None:
    code, output = tbh("run", "--recipe", SEED, "--print-spec", toml='n-concurrent = "many"')
    assert code == 2
    assert "Invalid value for '--n-concurrent'" in output.splitlines()[-1]


@pytest.mark.parametrize("toml", ["max-cost = true", "n-attempts = 2.5", "n-tasks = 1979-05-27"])
def test_config__a_value_is_read_as_on_the_command_line(toml: str) -> None:
    code, output = tbh("run", "--recipe", SEED, "--dry-run", toml=toml)
    assert code == 2
    assert f"Invalid value for '--{toml.partition(' ')[0]}'" in output
    assert output.count("\n") == 1


def test_config_defaults__no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tbh.toml")
    with pytest.raises(SpecError, match="no regular file"):
        config_defaults(tmp_path)


def test_config__help_needs_no_good_file() -> None:
    assert tbh("--help", toml="a = ")[0] == 0


def test_config_defaults__of_a_folder(tmp_path: Path) -> None:
    assert config_defaults(tmp_path) == {}
    (tmp_path / "tbh.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(SpecError, match="Cannot read"):
        config_defaults(tmp_path)


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--n-tasks", "0"),
        ("--n-concurrent", "-1"),
        ("--n-attempts", "x"),
        ("--agent-timeout-multiplier", "0"),
        ("--agent-timeout-multiplier", "nan"),
        ("--agent-timeout-multiplier", "inf"),
        ("--max-cost", "nan"),
        ("--max-cost", "0"),
        ("--max-cost", "-3"),
        ("--server-timeout", "4 hours"),
        ("--time-budget", "0"),
        ("--coverage-floor", "nan"),
        ("--comment", "sometimes"),
        ("--templates", "nowhere"),
        ("--n-concurent", "3"),
    ],
)
def test_flag__a_wrong_value_is_refused_with_its_name(flag: str, value: str) -> None:
    code, output = tbh("run", "--recipe", SEED, flag, value, "--print-spec")
    assert code == 2
    assert flag in output.splitlines()[-1]
    assert "Traceback" not in output


def test_types__convert() -> None:
    assert Duration().convert("1m", None, None) == 60
    assert Finite(min=0).convert("0.5", None, None) == 0.5
    with pytest.raises(click.BadParameter):
        Finite(min=0).convert("nan", None, None)


def test_run_command__every_option_has_a_variable_or_is_a_question() -> None:
    bare = {
        param.name
        for param in run_command.params
        if isinstance(param, click.Option) and not param.envvar
    }
    assert bare == {"dry_run", "print_spec"}
