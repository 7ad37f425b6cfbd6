"""A page of HTML read strictly: every element is closed, in order, and says what it has to."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"br", "input", "link", "meta", "img", "hr", "rect"}


@dataclass
class Element:
    """An element with the text inside of it, that of its children included."""

    tag: str
    attributes: dict[str, str]
    text: str = ""

    @property
    def shape(self) -> tuple[str, tuple[str, ...]]:
        """Return what is not text: its name and those of its attributes."""
        return self.tag, tuple(self.attributes)


@dataclass
class Read:
    """elements: in the order in which they begin.  comments, declarations: as they stand."""

    elements: list[Element] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    declarations: list[str] = field(default_factory=list)

    def all(self, tag: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag]

    def texts(self, tag: str) -> list[str]:
        return [" ".join(element.text.split()) for element in self.all(tag)]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.read = Read()
        self.open: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice in {tag}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.read.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open and self.open[-1].tag == tag, f"</{tag}> closes nothing"
            self.open.pop()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data

    def handle_comment(self, data: str) -> None:
        self.read.comments.append(data)

    def handle_decl(self, decl: str) -> None:
        self.read.declarations.append(decl)


def read_page(data: bytes) -> Read:
    """Fails for elements that overlap or stay open."""
    reader = _Reader()
    reader.feed(data.decode())
    reader.close()
    assert not reader.open, f"<{reader.open[-1].tag}> stays open"
    return reader.read
