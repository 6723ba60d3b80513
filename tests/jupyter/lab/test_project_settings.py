"""Settings as texts: what a form shows can be written as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from planck_nb.config import Config, SettingValue
from planck_nb.jupyter.lab.project_settings import setting_text


@pytest.mark.parametrize("value", Config.load(environment={}).settings(), ids=lambda value: value.setting.field)
def test_a_shown_value_is_read_as_the_same(value: SettingValue, tmp_path: Path) -> None:
    text = setting_text(value.setting, value.value)
    if text:
        assert value.setting.value_of(text, tmp_path, "it") == value.value
