"""Checks Java regular expressions, which Spark runs, without a JVM: `java.util.regex.Pattern` of Java 17.

A worker validates a configuration without a Spark session. For a rare feature (the flag x) this check allows less than
Java does; then the error says so.
"""

from __future__ import annotations

import re
from typing import Any, Final

from fencepost.api.errors import ConfigError
from fencepost.config.unicode_names import is_block, is_property, is_script

_FLAGS: Final = re.compile(r"\(\?([idmsuxU]*)(?:-([idmsuxU]*))?([:)])")
_NAMED: Final = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_REFERENCE: Final = re.compile(r"k<([a-zA-Z][a-zA-Z0-9]*)>")
_REPETITION: Final = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_ESCAPES: Final = re.compile(
    r"0(?:[0-3][0-7]{0,2}|[0-7]{1,2})|x[0-9a-fA-F]{2}|x\{[0-9a-fA-F]{1,6}\}|u[0-9a-fA-F]{4}|c[\x00-\x7f]"
    r"|N\{[^}]+\}|[^a-zA-Z0-9]",
    re.DOTALL,
)
"""Escapes that stand for one character."""
_CONTROLS: Final = "tnrfae"
_CLASSES: Final = "dDhHsSvVwW"
_OUTSIDE: Final = "RXbBAGZz"
"""Escapes that are allowed only outside of character classes."""
_PROPERTY: Final = re.compile(r"[pP](?:\{([^}]*)\}|([^{]))")
_PROPERTIES: Final = frozenset(
    [
        "Lower",
        "Upper",
        "ASCII",
        "Alpha",
        "Digit",
        "Alnum",
        "Punct",
        "Graph",
        "Print",
        "Blank",
        "Cntrl",
        "XDigit",
        "Space",
        "L1",
        "LC",
        "LD",
        "all",
        "Cn",
        "Lu",
        "Ll",
        "Lt",
        "Lm",
        "Lo",
        "Mn",
        "Me",
        "Mc",
        "Nd",
        "Nl",
        "No",
        "Zs",
        "Zl",
        "Zp",
        "Cc",
        "Cf",
        "Co",
        "Cs",
        "Pd",
        "Ps",
        "Pe",
        "Pc",
        "Po",
        "Sm",
        "Sc",
        "Sk",
        "So",
        "Pi",
        "Pf",
        "L",
        "M",
        "N",
        "Z",
        "C",
        "P",
        "S",
        "javaLowerCase",
        "javaUpperCase",
        "javaAlphabetic",
        "javaIdeographic",
        "javaTitleCase",
        "javaDigit",
        "javaDefined",
        "javaLetter",
        "javaLetterOrDigit",
        "javaJavaIdentifierStart",
        "javaJavaIdentifierPart",
        "javaUnicodeIdentifierStart",
        "javaUnicodeIdentifierPart",
        "javaIdentifierIgnorable",
        "javaSpaceChar",
        "javaWhitespace",
        "javaISOControl",
        "javaMirrored",
    ]
)
_NAMED_PROPERTY: Final = re.compile(r"(?:(sc|script)|(blk|block)|gc|general_category)=(.*)", re.IGNORECASE | re.DOTALL)
_MOST_REPETITIONS: Final = 2**31 - 1


def _is_property(name: str) -> bool:
    """Whether Java has a character class with this name, as written between the braces after p."""
    if (found := _NAMED_PROPERTY.fullmatch(name)) is not None:
        script, block, value = found.groups()
        return is_script(value) if script else is_block(value) if block else value in _PROPERTIES
    if name.startswith("In"):
        return is_block(name[2:])
    if name.startswith("Is"):
        return is_property(name[2:]) or name[2:] in _PROPERTIES or is_script(name[2:])
    return name in _PROPERTIES


class JavaRegex:
    """A Java regular expression. Raises ValueError with the error and its position.

    `groups` is the number of groups; `names` are the names of the named groups. `whole` is the same expression, but
    matches only whole texts.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lookbehinds = 0
        self._ends_quoted = False
        self.groups = 0
        self.names: set[str] = set()
        self._alternatives()
        if self._at < len(text):
            raise self._error("has a closing parenthesis too many")
        end = r"\E" if self._ends_quoted else ""
        self.whole = rf"\A(?:{text}{end})\z"

    def _error(self, what: str, at: int | None = None) -> ValueError:
        return ValueError(f"{what}, at character {(self._at if at is None else at) + 1}")

    def _next(self, count: int = 1) -> str:
        return self._text[self._at : self._at + count]

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _alternatives(self) -> None:
        """Read up to the parenthesis that closes a group, or to the end."""
        while self._at < len(self._text) and self._next() != ")":
            if self._next() == "|":
                self._at += 1
            elif self._atom():
                self._quantifier()

    def _atom(self) -> bool:
        """Read an element that a quantifier may follow. Returns False if there is no such element."""
        match self._next():
            case "(":
                return self._group()
            case "[":
                self._class()
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise self._error(f"has a {self._next()} with nothing before it to repeat")
            case "{":
                # Java, too, accepts a quantifier that has nothing before it.
                return True
            case _:
                self._at += 1
        return True

    def _quantifier(self) -> None:
        if self._next() == "{":
            start = self._at
            found = self._take(_REPETITION)
            if found is None:
                raise self._error(
                    "has a { that begins no repetition such as {2} or {2,3}: write \\{ for the character itself"
                )
            least, most = int(found[1]), int(found[3]) if found[3] else int(found[1])
            if most < least or most > _MOST_REPETITIONS:
                raise self._error(f"has the impossible repetition {found[0]}", start)
            unbounded = bool(found[2]) and not found[3]
        elif self._next() in ("*", "+", "?") and self._next():
            unbounded = self._next() != "?"
            self._at += 1
        else:
            return
        if unbounded and self._lookbehinds:
            raise self._error("repeats something without a limit in a look-behind")
        if self._next() in ("?", "+") and self._next():
            self._at += 1

    def _group(self) -> bool:
        start = self._at
        behind = self._next(4) in ("(?<=", "(?<!")
        if behind:
            self._at += 4
        elif self._next(3) in ("(?:", "(?=", "(?!", "(?>"):
            self._at += 3
        elif (named := self._take(_NAMED)) is not None:
            if named[1] in self.names:
                raise self._error(f"has two groups named {named[1]}", start)
            self.names.add(named[1])
            self.groups += 1
        elif (flags := self._take(_FLAGS)) is not None:
            if "x" in flags[1]:
                raise self._error("has the flag x, which is not supported here: leave out blanks and comments", start)
            if flags[3] == ")":
                return False
        elif self._next(2) == "(?":
            raise self._error("has a group of an unknown kind")
        else:
            self._at += 1
            self.groups += 1
        self._lookbehinds += behind
        self._alternatives()
        self._lookbehinds -= behind
        if self._next() != ")":
            raise self._error("has an opening parenthesis that is not closed", start)
        self._at += 1
        return True

    def _escape(self) -> bool:
        """Read a backslash and the escape after it, outside of character classes."""
        start = self._at
        self._at += 1
        if not self._next():
            raise self._error("ends with a lone backslash", start)
        if self._next() == "Q":
            return self._quoted()
        if self._next() == "E":
            # Outside of a quotation, Java considers \E an unknown escape.
            raise self._error(r"has an \E without a \Q", start)
        if self._next() in "123456789":
            if self._lookbehinds:
                raise self._error("refers to a group in a look-behind, which has no limit", start)
            self._at += 1
            return True
        if (reference := self._take(_REFERENCE)) is not None:
            if reference[1] not in self.names:
                raise self._error(f"refers to a group {reference[1]}, which is not there before it", start)
            return True
        if self._next() in _OUTSIDE:
            self._at += 1
            return True
        self._character(start)
        return True

    def _quoted(self) -> bool:
        end = self._text.find(r"\E", self._at)
        self._ends_quoted = end < 0
        content = self._text[self._at + 1 : end if end >= 0 else len(self._text)]
        self._at = len(self._text) if end < 0 else end + 2
        return bool(content)

    def _character(self, start: int) -> str | None:
        """Read an escape for one character or for a set. Returns the character, or None for a set."""
        if (prop := self._take(_PROPERTY)) is not None:
            name = prop[1] if prop[1] is not None else prop[2]
            if not _is_property(name):
                raise self._error(f"has the unknown property of characters {prop[0]}", start)
            return None
        if self._next() in _CLASSES and self._next():
            self._at += 1
            return None
        if self._next() in _CONTROLS and self._next():
            self._at += 1
            return {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}[self._text[self._at - 1]]
        found = self._take(_ESCAPES)
        if found is None:
            raise self._error(f"has the unknown escape \\{self._next()}", start)
        return _character_of(found[0])

    def _class(self) -> None:
        """Read a set of characters in brackets, which may contain other sets, and intersections."""
        start = self._at
        self._at += 2 if self._next(2) == "[^" else 1
        empty = True
        while self._next() != "]" or empty:
            if not self._next():
                raise self._error(
                    "has an opening bracket that is not closed: write \\[ for the character itself", start
                )
            if self._next() == "[":
                self._class()
            elif self._next(2) == "&&":
                self._at += 2
                continue
            else:
                self._range()
            empty = False
        self._at += 1

    def _range(self) -> None:
        start = self._at
        first = self._in_class()
        if first is None or self._next() != "-" or self._next(2) in ("-]", "-[", "-"):
            return
        self._at += 1
        last = self._in_class()
        if last is None or last < first:
            raise self._error(f"has the impossible range {self._text[start : self._at]}", start)

    def _in_class(self) -> str | None:
        start = self._at
        self._at += 1
        character = self._text[start]
        if character != "\\":
            return character
        if self._next() in ("Q", "E", ""):
            raise self._error("has a quotation, or a lone backslash, within brackets", start)
        return self._character(start)


def _character_of(escape: str) -> str:
    match escape[0]:
        case "0":
            return chr(int(escape[1:], 8))
        case "x" | "u":
            return chr(int(escape[1:].strip("{}"), 16))
        case "c":
            return chr(ord(escape[1]) ^ 64)
        case "N":
            return "\0"
    return escape


def check_replacement(regex: JavaRegex, text: str) -> None:
    """Raise ValueError if `Matcher.replaceAll` refuses a replacement, which may contain $1, ${name} and escapes."""
    at = 0
    while at < len(text):
        if text[at] == "\\":
            if at + 1 == len(text):
                raise ValueError("ends with a lone backslash: write two for the character itself")
            if text[at + 1].isdigit():
                raise ValueError(
                    f"has {text[at : at + 2]}, which is the digit itself: write ${text[at + 1]} for the group"
                )
            at += 2
        elif text[at] == "$":
            at = _group_end(regex, text, at)
        else:
            at += 1


def _group_end(regex: JavaRegex, text: str, at: int) -> int:
    named = re.compile(r"\$\{([a-zA-Z][a-zA-Z0-9]*)\}").match(text, at)
    if named is not None:
        if named[1] not in regex.names:
            raise ValueError(f"names the group {named[1]}, which the expression does not have")
        return named.end()
    numbered = re.compile(r"\$([0-9])").match(text, at)
    if numbered is None:
        raise ValueError(
            "has a $ that is not followed by a group's number or {name}: write \\$ for the character itself"
        )
    if int(numbered[1]) > regex.groups:
        raise ValueError(f"names the group {numbered[1]}, but the expression has only {regex.groups}")
    return numbered.end()


def java_regex(name: str, value: Any) -> JavaRegex:
    """Return the value of a property as a Java regular expression. Raises ConfigError."""
    try:
        return JavaRegex(str(value))
    except RecursionError:
        raise ConfigError(
            f"The value of the property {name} has too many parentheses or brackets within each other", name=name
        ) from None
    except ValueError as error:
        raise ConfigError(
            f"{value!r}, the value of the property {name}, is not a regular expression of Java's: it {error}", name=name
        ) from None


def java_pattern(name: str, value: Any) -> None:
    """Allow only Java regular expressions."""
    if value is not None:
        java_regex(name, value)
