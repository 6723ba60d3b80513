"""The keys in notebooks, for handlers, shortcuts and help.

`labextension/generate_types.py` writes the keys for the views into `src/view/keys.generated.ts`; a test compares the
commands with `labextension/settings`.
"""

from __future__ import annotations

from dataclasses import dataclass

_NAMES = {"Accel": "Ctrl", "ArrowUp": "Up", "ArrowDown": "Down", "ArrowLeft": "Left", "ArrowRight": "Right"}
_LINES = ("ArrowUp", "ArrowDown", "Home", "End")


@dataclass(frozen=True, slots=True)
class Key:
    """An action's keys at one place.

    Args:
        action: The handler's name in the view, or the command's in JupyterLab.
        keys: The keys; each alone does it; `Accel` is Ctrl, or Cmd on a Mac.
        does: A line for help.
    """

    action: str
    keys: tuple[str, ...]
    does: str

    @property
    def shown(self) -> str:
        """The keys as they are called on keyboards."""
        return ", ".join("+".join(_NAMES.get(part, part) for part in key.split("+")) for key in self.keys)


@dataclass(frozen=True, slots=True)
class Place:
    """A page's part, with its keys.

    Args:
        name: Its name in the view's code; empty for JupyterLab's commands.
        where: Its heading in help, without the colon.
        keys: What its keys do.
    """

    name: str
    where: str
    keys: tuple[Key, ...]


PLACES = (
    Place(
        "",
        "In a JupyterLab notebook",
        (
            Key("planck:ask-in-panel", ("Accel+Shift+Space",), "ask about the cell in the side panel"),
            Key("planck:next-change", ("F8",), "show the next proposed change"),
            Key("planck:previous-change", ("Shift+F8",), "show the previous one"),
            Key("planck:accept-change", ("Accel+F8",), "accept the one that is shown"),
        ),
    ),
    Place(
        "run",
        "In a run",
        (
            Key("stop", ("Accel+.",), "stop it"),
            Key("leave", ("Escape",), "return to the cell"),
        ),
    ),
    Place(
        "field",
        "While you write to a running agent",
        (
            Key("send", ("Enter",), "send it: the agent reads it before its next step"),
            Key("queue", ("Alt+Enter",), "queue it behind this turn"),
            Key("newLine", ("Shift+Enter",), "begin a line"),
        ),
    ),
    Place("queued", "In a queued prompt", (Key("leave", ("Escape",), "leave it as it was"),)),
    Place(
        "lines",
        "On a line in a run",
        (
            Key("move", _LINES, "go to another line"),
            Key("open", ("ArrowRight",), "open the line"),
            Key("close", ("ArrowLeft",), "close it"),
        ),
    ),
    Place(
        "team",
        "On an agent in a team's run",
        (
            Key("move", _LINES, "go to another agent"),
            Key("toggle", ("Enter", "Space"), "open the agent, or close it"),
            Key("open", ("ArrowRight",), "open it"),
            Key("close", ("ArrowLeft",), "close it"),
        ),
    ),
    Place("member", "In an open agent", (Key("leave", ("Escape",), "return to its line"),)),
    Place(
        "approval",
        "In a call that waits for you",
        (
            Key("allow", ("Accel+Enter",), "allow it once"),
            Key("back", ("Escape",), "drop what you edited"),
        ),
    ),
    Place("question", "In a question", (Key("accept", ("Accel+Enter",), "send the answer"),)),
    Place(
        "change",
        "In a proposed change",
        (
            Key("accept", ("Accel+Enter", "Accel+F8"), "accept it"),
            Key("next", ("F8", "Alt+ArrowDown"), "show the next one"),
            Key("previous", ("Shift+F8", "Alt+ArrowUp"), "show the previous one"),
            Key("leave", ("Escape",), "return to the notebook"),
        ),
    ),
    Place(
        "review",
        "In the bar above the notebook",
        (
            Key("next", ("F8", "Alt+ArrowDown"), "show the next change"),
            Key("previous", ("Shift+F8", "Alt+ArrowUp"), "show the previous one"),
            Key("leave", ("Escape",), "return to the notebook"),
        ),
    ),
    Place("ask", "In the side panel's prompt box", (Key("send", ("Enter", "Accel+Enter"), "send the prompt"),)),
    Place("sessions", "In the session list", (Key("move", ("ArrowUp", "ArrowDown"), "go to another session"),)),
    Place("menuButton", "On a menu's button", (Key("open", ("ArrowDown",), "open the menu"),)),
    Place(
        "menu",
        "In a menu",
        (
            Key("move", _LINES, "go to another item"),
            Key("close", ("Escape", "Tab", "Shift+Tab"), "close it"),
        ),
    ),
)
