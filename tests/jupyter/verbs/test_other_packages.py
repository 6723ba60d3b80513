"""A verb of another package is a function with a declaration, and an entry point; everything else comes with it."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator

import pytest
from support.kernel import TIMEOUT, Kernel, running_kernel

GREET = '''
from planck_nb.agent.agent import Agent
from planck_nb.jupyter.verbs import AGENT, INTEGER, Notebook, Option, Parameter, Text, verb


@verb(
    "greet",
    "Manners",
    "greet an agent",
    Parameter("agent", AGENT, "the agent to greet"),
    Option("times", "n", INTEGER, "how often: 1 or more"),
    example="greet analyst --times 2",
)
async def greet(notebook: Notebook, agent: Agent, times: int | None) -> Text:
    """Return a greeting."""
    return Text(" ".join([f"Hello, {agent.name}."] * (times or 1)))
'''

ENTRY_POINTS = """
[planck_nb.verbs]
greet = acme_planck:greet
missing = acme_planck.nowhere:verb
plain = acme_planck:Text
abort = acme_planck:greet
other = acme_planck:greet
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel with the little package installed."""
    packages = tmp_path_factory.mktemp("packages")
    metadata = packages / "acme_planck-1.0.dist-info"
    metadata.mkdir()
    (packages / "acme_planck.py").write_text(GREET)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-planck\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    settings = {"PLANCK_NB_DEMO_PACE": "0", "PLANCK_NB_MODEL": "demo"}
    with running_kernel(tmp_path_factory.mktemp("notebook"), **settings) as kernel:
        kernel.run(f"import sys\nsys.path.append({str(packages)!r})\n%load_ext planck_nb")
        kernel.run("%planck --quiet --agent 'big one' hello")
        yield kernel


def matches(kernel: Kernel, code: str) -> dict[str, str]:
    """What completion offers, each with its description."""
    sent = kernel.client.complete(code, len(code))
    while True:
        reply = kernel.client.get_shell_msg(timeout=TIMEOUT)
        if reply["parent_header"]["msg_id"] == sent:
            found = reply["content"]["metadata"]["_jupyter_types_experimental"]
            return {item["text"]: item["type"] for item in found}


def test_the_package_is_imported_only_when_it_is_needed(kernel: Kernel) -> None:
    assert kernel.run("'acme_planck' in sys.modules").plain == "False"
    assert kernel.run("%planck greet big one").plain == "Hello, big one."
    assert kernel.run("'acme_planck' in sys.modules").plain == "True"


@pytest.mark.parametrize("line", ["greet 'big one' --times 2", 'greet -n 2 "big one"', "greet big one --times=2"])
def test_names_in_quotes_and_options_anywhere(kernel: Kernel, line: str) -> None:
    assert kernel.run(f"%planck {line}").plain == "Hello, big one. Hello, big one."


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("greet", "UsageError: `%planck greet` needs AGENT; write `%planck greet AGENT`."),
        ("greet bigone", "AgentError: No agent is named bigone. Did you mean big one?"),
        ("greet 'big one' --times no", "UsageError: --times cannot be 'no': how often: 1 or more."),
        ("greet 'big one' --tims 2", "UsageError: %planck greet has no option --tims. Did you mean --times?"),
    ],
)
def test_an_error_is_one_sentence_and_a_traceback_with_debug(kernel: Kernel, line: str, sentence: str) -> None:
    assert kernel.run(f"%planck {line}").error == sentence
    error = kernel.run(f"%planck {line} --debug").error
    assert "Traceback" in error
    assert sentence.partition(": ")[2] in error


def test_help_lists_and_explains_it(kernel: Kernel) -> None:
    lines = kernel.run("%planck help all").plain.splitlines()
    assert lines[lines.index("Manners:") + 1].split() == ["greet", "greet", "an", "agent"]
    page = textwrap.dedent(
        """\
        %planck greet AGENT
            greet an agent

          AGENT                         the agent to greet
          -n, --times N                 how often: 1 or more
          --debug                       show the whole traceback of an error
          --help                        show this help

        Example: %planck greet analyst --times 2"""
    )
    assert kernel.run("%planck help greet").plain == kernel.run("%planck greet --help").plain == page


def test_completion_describes_it(kernel: Kernel) -> None:
    assert matches(kernel, "%planck gre") == {"greet": "greet an agent"}
    assert matches(kernel, "%planck greet --t") == {"--times": "how often: 1 or more"}
    assert matches(kernel, "%planck greet bi") == {'"big one"': "demo:demo, idle"}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing", "ModuleNotFoundError: No module named 'acme_planck.nowhere'; 'acme_planck' is not a package"),
        ("plain", "acme_planck:Text is not a verb"),
        ("other", "acme_planck:greet is the verb greet"),
    ],
)
def test_a_verb_that_cannot_be_loaded_is_one_sentence(kernel: Kernel, name: str, reason: str) -> None:
    sentence = f"The verb {name} of the package acme-planck cannot be loaded ({reason})."
    assert kernel.run(f"%planck {name}").error == f"UsageError: {sentence}"
    assert sentence in kernel.run("%planck help all").plain
    assert kernel.run(f"%planck help {name}").status == "ok"
    assert matches(kernel, f"%planck {name[:4]}") == {name: sentence}


def test_a_built_in_verb_stays(kernel: Kernel) -> None:
    assert kernel.run("%planck stop").plain == "Nothing is running."
    assert ast.literal_eval(kernel.run("[name for name in sys.modules if name == 'acme_planck']").plain)
