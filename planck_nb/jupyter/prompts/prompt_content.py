"""What a prompt carries besides its text: values in words, and images."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from planck_nb.ai.messages import ImagePart, TextPart, UserPart
from planck_nb.ai.models import Model
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.namespace import describe
from planck_nb.jupyter.prompts.mentions import without_secrets
from planck_nb.jupyter.prompts.prompt_images import MAX_IMAGES, can_be_image, described, draw_image, image_file
from planck_nb.jupyter.values.type_checks import is_a


@dataclass(frozen=True, slots=True)
class CarriedImage:
    """An image that a prompt carries. `name` is the variable or the file, `words` what stands for it without it."""

    name: str
    image: ImagePart
    words: str = ""


@dataclass(frozen=True, slots=True)
class PromptContent:
    """A prompt with what it carries.

    Args:
        texts: The prompt itself, and each value in words.
        images: The images.
        notices: Sentences to show.
    """

    texts: tuple[str, ...]
    images: tuple[CarriedImage, ...] = ()
    notices: tuple[str, ...] = ()

    def require_model(self, model: Model) -> None:
        """Check that the model accepts the files. Raises `UsageError` if it does not."""
        files = [carried.name for carried in self.images if not carried.words]
        if files and not model.takes("image"):
            raise UsageError(
                f"{model.alias or model} does not accept images, so {files[0]} cannot be sent; choose a model that "
                "does with --model."
            )

    def parts(self, model: Model) -> tuple[str | Sequence[UserPart], tuple[str, ...]]:
        """Return the content of the message to this model, and what to show about it.

        Variables are described in words to a model that does not accept images.
        """
        if not self.images:
            return "\n\n".join(filter(None, self.texts)), self.notices
        if not model.takes("image"):
            names = ", ".join(carried.name for carried in self.images)
            notice = f"{model.alias or model} does not accept images; {names} is described in words."
            words = [carried.words for carried in self.images]
            return "\n\n".join([*self.texts, *words]), (*self.notices, notice)
        parts: list[UserPart] = [TextPart("\n\n".join(self.texts))]
        for carried in self.images:
            parts += [TextPart(f"\n\n`{carried.name.removeprefix('@')}` is this image:"), carried.image]
        sent = ", ".join(f"{carried.name} ({described(carried.image)})" for carried in self.images)
        return parts, (*self.notices, f"As images: {sent}")


def content_of(
    text: str,
    names: Iterable[str],
    files: Sequence[Path],
    namespace: Mapping[str, object],
    included: Collection[str] = (),
) -> PromptContent:
    """Collect what a prompt carries.

    Args:
        text: The prompt.
        names: The variables that it mentions.
        files: The images that it names as files.
        namespace: The variables of the notebook.
        included: The variables that were included by `--with`.

    Returns:
        The content.

    Raises:
        UsageError: An image cannot be read, drawn or sent, or there are too many.
    """
    texts, images, notices = [text], [], list[str]()
    for name in names:
        value = namespace[name]
        words = without_secrets(name, describe(name, value), included)
        is_path = is_a(value, str) or is_a(value, Path)
        image = None
        if can_be_image(value):
            try:
                image = draw_image(name, value)
            except UsageError as error:
                if not is_path:
                    raise
                notices.append(f"@{name} is sent as text only. {error}")
        if image is None or is_path:
            texts.append(words)
        if image is not None:
            images.append(
                CarriedImage(f"@{name}", image, f"`{name}` is also the path of an image." if is_path else words)
            )
    images += [CarriedImage(str(path), image_file(path)) for path in dict.fromkeys(files)]
    if len(images) > MAX_IMAGES:
        raise UsageError(f"The prompt has {len(images)} images, and {MAX_IMAGES} are the most.")
    return PromptContent(tuple(texts), tuple(images), tuple(notices))
