"""Settings come from files, too, and can be written into them."""

from __future__ import annotations

from pathlib import Path

import pytest

from planck_nb import Config, Workspace
from planck_nb.agent.approval import Rule
from planck_nb.agent.limits import Limits
from planck_nb.base.errors import ConfigError
from planck_nb.config import SETTINGS, Scope, write_setting
from planck_nb.config.env_file import parse_env_file

FILE = ".planck/config.toml"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home/.planck").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project/.planck").mkdir(parents=True)
    return tmp_path / "project"


def sources(config: Config) -> dict[str, str]:
    return {value.setting.field: value.source for value in config.settings()}


def test_the_first_that_has_a_value_counts(home: Path, project: Path) -> None:
    (home / FILE).write_text("compact_ratio = 0.1\napproval_deadline = 1\ndemo_pace = 1\nfallbacks = ['a', 'b']")
    (project / FILE).write_text("compact_ratio = 0.2\napproval_deadline = 2\ndemo_pace = 2")
    environment = {"PLANCK_NB_APPROVAL_DEADLINE": "3", "PLANCK_NB_COMPACT_RATIO": "0.3"}
    config = Config.load(environment=environment, directory=project, home=home, compact_ratio=0.4)
    assert (config.compact_ratio, config.approval_deadline, config.demo_pace) == (0.4, 3.0, 2.0)
    assert config.fallbacks == ("a", "b")
    found = sources(config)
    assert found["compact_ratio"] == "call"
    assert found["approval_deadline"] == "environment PLANCK_NB_APPROVAL_DEADLINE"
    assert found["demo_pace"] == ".planck/config.toml"
    assert found["fallbacks"] == "~/.planck/config.toml"
    assert found["sessions_dir"] == found["cassette"] == "default"
    assert list(found) == [setting.field for setting in SETTINGS]


def test_every_setting_can_be_in_a_file(home: Path, project: Path) -> None:
    (project / FILE).write_text(
        """
        sessions_dir = "s"
        default_model = "demo:demo"
        fallbacks = ["demo:other"]
        limits = {rounds = 3, cost = "none"}
        allow = ["bash:echo a, b", "read"]
        ask = ["network"]
        deny = "bash:rm, bash:dd"
        approval_deadline = 5
        compact_ratio = 1
        max_workers = 3
        retry_seconds = 120
        first_retry_seconds = 0
        skills_dirs = ["skills", "/skills"]
        tools_dirs = []
        teams_dirs = ["teams"]
        sidecar_sampling = ["one", "two"]
        sidecar_roots = "one, two"
        sidecar_observers = ["one", "two"]
        sidecar_wait = "named"
        fix_attempts = 2
        sandbox = "required"
        demo_pace = 0.5
        cassette = "c.jsonl"
        cassette_mode = "replay"
        models_file = "m.json"
        env_file = ".env"
        """
    )
    (project / "m.json").write_text("{}")
    (project / ".env").write_text("")
    config = Config.load(environment={}, directory=project, home=home, trust=True)
    assert set(sources(config).values()) == {".planck/config.toml"}
    assert config.warnings == ()
    assert config.sessions_dir == project / "s"
    assert config.limits == Limits(rounds=3, cost=None)
    texts = {"deny": ["bash:rm", "bash:dd"], "allow": ["bash:echo a, b", "read"], "ask": ["network"]}
    rules = {setting.field: value for setting, value, _ in config.settings() if setting.field in texts}
    for action in ("deny", "allow", "ask"):
        assert rules[action] == tuple(Rule.parse(action, text) for text in texts[action])
    assert config.skills_dirs == (project / "skills", Path("/skills"))
    assert config.tools_dirs == ()
    assert config.teams_dirs == (project / "teams",)
    assert config.sidecar_sampling == config.sidecar_roots == config.sidecar_observers == ("one", "two")


@pytest.mark.parametrize(
    ("line", "accepted"),
    [
        ("compact_ratio = 2", "above 0 and at most 1"),
        ("compact_ratio = true", "above 0 and at most 1"),
        ("approval_deadline = 'soon'", "a number of seconds"),
        ("default_model = 3", "must be text"),
        ("sessions_dir = ''", "must be text"),
        ("sessions_dir = '~nobody-here/x'", "must be a path"),
        ("fallbacks = [1]", "must be a list of strings"),
        ("cassette_mode = 'sometimes'", "must be one of"),
        ("limits = 3", "must be a table such as"),
        ("limits = {round = 3}", "takes NAME=NUMBER for"),
        ("deny = ['@write']", "names nothing before '@'"),
    ],
)
def test_a_wrong_value_names_file_and_key(home: Path, project: Path, line: str, accepted: str) -> None:
    (project / FILE).write_text(line)
    with pytest.raises(ConfigError) as error:
        Config.load(environment={}, directory=project, home=home)
    assert str(error.value).startswith(f"{project / FILE}: {line.split(maxsplit=1)[0]} is ")
    assert accepted in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_not_toml_is_an_error(home: Path, project: Path) -> None:
    (project / FILE).write_text("default_model = ")
    with pytest.raises(ConfigError, match=r"config\.toml is not valid TOML"):
        Config.load(environment={}, directory=project, home=home)
    with pytest.raises(ConfigError, match="was not written"):
        write_setting("project", "default_model", "demo:demo", directory=project)
    assert (project / FILE).read_text() == "default_model = "
    (project / FILE).unlink()
    (project / FILE).mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        Config.load(environment={}, directory=project, home=home)


def test_an_unknown_key_is_a_warning_with_the_nearest_one(home: Path, project: Path) -> None:
    (project / FILE).write_text("default_modle = 'demo'\ncompact_ratio = 0.5")
    config = Config.load(environment={}, directory=project, home=home)
    (warning,) = config.warnings
    assert warning.startswith(f"{project / FILE} has 'default_modle', which is not a setting. Did you mean default_mod")
    assert config.compact_ratio == 0.5


@pytest.mark.parametrize("line", ["OPENAI_API_KEY = 'abcdefgh'", "default_model = 'sk-ant-abcdefghijklmnopqrstuvwxyz'"])
def test_secrets_are_not_accepted(home: Path, project: Path, line: str) -> None:
    (project / FILE).write_text(line)
    config = Config.load(environment={}, directory=project, home=home)
    (warning,) = config.warnings
    key, _, value = line.partition(" = ")
    assert f"{key} was not used: settings files hold no secrets" in warning
    assert value.strip("'") not in warning
    assert config.default_model is None
    with pytest.raises(ConfigError, match="no secrets") as error:
        write_setting("project", key, value.strip("'"), directory=project)
    assert value.strip("'") not in str(error.value)


def test_in_the_home_folder_the_file_is_the_users(home: Path) -> None:
    (home / FILE).write_text("compact_ratio = 0.5")
    assert sources(Config.load(environment={}, directory=home, home=home))["compact_ratio"] == "~/.planck/config.toml"


@pytest.mark.parametrize("scope", ["project", "user"])
def test_what_is_written_is_read(home: Path, project: Path, scope: Scope) -> None:
    path = write_setting(scope, "default_model", "demo:demo", directory=project, home=home)
    write_setting(scope, "fallbacks", "a, b", directory=project, home=home)
    write_setting(scope, "compact_ratio", "0.5", directory=project, home=home)
    write_setting(scope, "limits", {"rounds": 3}, directory=project, home=home)
    write_setting(scope, "sessions_dir", Path("/s"), directory=project, home=home)
    assert path == ({"project": project, "user": home}[scope] / FILE)
    config = Config.load(environment={}, directory=project, home=home)
    assert (config.default_model, config.fallbacks, config.compact_ratio) == ("demo:demo", ("a", "b"), 0.5)
    assert (config.limits, config.sessions_dir) == (Limits(rounds=3), Path("/s"))
    assert 'fallbacks = ["a", "b"]\ncompact_ratio = 0.5\n' in path.read_text()
    write_setting(scope, "default_model", None, directory=project, home=home)
    assert Config.load(environment={}, directory=project, home=home).default_model is None


def test_writing_keeps_comments_and_everything_else(home: Path, project: Path) -> None:
    (project / FILE).write_text("# Ours.\ncompact_ratio = 0.5  # half\nunknown = 1\n\n[limits]\nrounds = 3 # few\n")
    write_setting("project", "compact_ratio", 0.7, directory=project)
    write_setting("project", "default_model", "demo:demo", directory=project)
    text = (project / FILE).read_text()
    assert text.startswith("# Ours.\ncompact_ratio = 0.7  # half\nunknown = 1\n")
    assert "[limits]\nrounds = 3 # few\n" in text
    config = Config.load(environment={}, directory=project, home=home, trust=True)
    assert (config.default_model, config.limits.rounds) == ("demo:demo", 3)


def test_a_link_to_a_file_elsewhere_stays_one(home: Path, project: Path) -> None:
    (home / "dotfile.toml").write_text("")
    (project / FILE).symlink_to(home / "dotfile.toml")
    write_setting("project", "compact_ratio", 0.7, directory=project)
    assert (project / FILE).is_symlink()
    assert (home / "dotfile.toml").read_text() == "compact_ratio = 0.7\n"


@pytest.mark.parametrize(
    ("scope", "key", "value", "sentence"),
    [
        ("user", "compact_ratio", "2", "compact_ratio is '2'; it must be a number above 0 and at most 1."),
        ("project", "compact_ration", "1", "There is no setting compact_ration. Did you mean compact_ratio?"),
        ("project", "limits", {"rounds": object()}, "limits is "),
        ("planet", "compact_ratio", "1", "There is no scope 'planet'; write to 'project' or 'user'."),
    ],
)
def test_what_cannot_be_used_is_not_written(
    tmp_path: Path, scope: Scope, key: str, value: object, sentence: str
) -> None:
    with pytest.raises(ConfigError) as error:
        write_setting(scope, key, value, directory=tmp_path, home=tmp_path)
    assert str(error.value).startswith(sentence)
    assert not (tmp_path / FILE).exists()


async def test_an_env_file_is_read_only_if_it_is_named(home: Path, project: Path) -> None:
    (project / ".env").write_text("OPENAI_API_KEY=abc\nPLANCK_NB_COMPACT_RATIO=0.5\nPLANCK_NB_DEMO_PACE=1\nnonsense\n")
    config = Config.load(environment={}, directory=project, home=home, trust=True)
    assert (config.compact_ratio, dict(config.env_variables)) == (0.8, {})

    config = Config.load(environment={"PLANCK_NB_DEMO_PACE": "2"}, directory=project, home=home, env_file=".env")
    assert (config.compact_ratio, config.demo_pace) == (0.5, 2.0)
    assert config.environment()["OPENAI_API_KEY"] == "abc"
    assert "abc" not in repr(config)
    assert config.warnings == (f"{project / '.env'} was read without line 4: write NAME=value.",)
    assert sources(config)["compact_ratio"] == "PLANCK_NB_COMPACT_RATIO in env_file"
    async with Workspace(config) as workspace:
        assert (await workspace.default_model())[0].provider == "openai"

    with pytest.raises(ConfigError, match="env_file cannot be read"):
        Config.load(environment={}, directory=project, home=home, env_file="nothing")


def test_variables_of_the_process_go_before_the_env_file(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".env").write_text("OPENAI_API_KEY=abc")
    config = Config.load(environment={}, directory=project, home=home, trust=True, env_file=".env")
    monkeypatch.setenv("OPENAI_API_KEY", "def")
    assert config.environment()["OPENAI_API_KEY"] == "def"


@pytest.mark.parametrize(
    ("text", "variables", "unread"),
    [
        ("A=1\r\nB=\nexport C = x y", {"A": "1", "B": "", "C": "x y"}, []),
        ("A='x # y' # z\nB=\"x\"\nC=x#y # z\nD= # z", {"A": "x # y", "B": "x", "C": "x#y", "D": ""}, []),
        ("# A=1\n\n A=$B\n1A=2\n=3", {"A": "$B"}, [4, 5]),
    ],
)
def test_lines_of_an_env_file(text: str, variables: dict[str, str], unread: list[int]) -> None:
    assert parse_env_file(text) == (variables, unread)


def test_how_long_requests_are_sent_again(tmp_path: Path) -> None:
    config = Config.load(environment={}, directory=tmp_path, home=tmp_path)
    assert (config.retry_seconds, config.first_retry_seconds) == (60.0, 10.0)
    environment = {"PLANCK_NB_RETRY_SECONDS": "300", "PLANCK_NB_FIRST_RETRY_SECONDS": "0"}
    config = Config.load(environment=environment, directory=tmp_path, home=tmp_path)
    assert (config.retry_seconds, config.first_retry_seconds) == (300.0, 0.0)
