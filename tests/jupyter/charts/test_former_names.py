"""The names that charts had in version 0.1.0."""

from __future__ import annotations

import pytest

from planck_nb.jupyter import charts, pictures


@pytest.mark.parametrize(
    ("former", "present"),
    [("Picture", "Chart"), ("timeline_picture", "timeline_chart"), ("usage_picture", "usage_chart")],
)
def test_former_names_work_with_a_warning(former: str, present: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"is now planck_nb\.jupyter\.charts\.{present}\.$"):
        assert getattr(pictures, former) is getattr(charts, present)


def test_other_names_do_not_exist() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Drawing'"):
        _ = pictures.Drawing
