"""Values as the native program reads and writes them: JSON, times, ids of nodes."""

import calendar
import datetime
import json
import re
import time

NESTING_MAX = 10_000
INT_MAX = 2**63 - 1
ZERO_TIME = "0001-01-01T00:00:00Z"


class Refusal(Exception):
    """What the program says when it can't; with its exit code."""

    def __init__(self, text, code=1):
        super().__init__(text)
        self.code = code


# JSON, as strict and as lax as the original's reader. No recursion: nesting has a limit of its own.

TOKEN = re.compile(
    r"[ \t\r\n]*(?:([{}\[\],:])"
    r'|("[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*")'
    r"|(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
    r"|(true|false|null))"
)
BLANKS = re.compile(r"[ \t\r\n]*")


class Text(str):
    """A string that remembers how it was written: identifiers and times are compared as written, escapes and all."""

    @staticmethod
    def of(token):
        plain = json.loads(token)
        if any("\ud800" <= c <= "\udfff" for c in plain):
            plain = plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        text = Text(plain)
        text.raw = token[1:-1]
        return text


class Number(str):
    """A number as it was written."""


class Members(list):
    """An object: pairs in their order, duplicates too."""


def parse(data):
    """The value in these bytes. What isn't UTF-8 is replaced, nothing else is forgiven."""
    text = data.decode("utf-8", "replace")
    stack = []  # Containers that are open: (container, its key that waits for a value)
    root = []
    at, want = 0, "value"
    while True:
        token = TOKEN.match(text, at)
        if not token:
            raise Refusal("invalid JSON")
        at = token.end()
        sign, string, number, word = token.groups()
        if want in ("value", "value or ]"):
            if sign in ("{", "["):
                stack.append([Members() if sign == "{" else [], None])
                if len(stack) > NESTING_MAX:
                    raise Refusal("invalid JSON: exceeded max depth")
                want = "key or }" if sign == "{" else "value or ]"
                continue
            if sign == "]" and want == "value or ]":
                value = stack.pop()[0]
            elif sign:
                raise Refusal("invalid JSON")
            elif string is not None:
                value = Text.of(string)
            elif number is not None:
                value = Number(number)
            else:
                value = {"true": True, "false": False, "null": None}[word]
        elif want in ("key", "key or }"):
            if string is not None:
                stack[-1][1] = Text.of(string)
                want = ":"
                continue
            if sign != "}" or want == "key":
                raise Refusal("invalid JSON")
            value = stack.pop()[0]
        elif want == ":":
            if sign != ":":
                raise Refusal("invalid JSON")
            want = "value"
            continue
        else:  # A comma or the end of the innermost container.
            container = stack[-1][0]
            if sign == ",":
                want = "key" if isinstance(container, Members) else "value"
                continue
            if sign != ("}" if isinstance(container, Members) else "]"):
                raise Refusal("invalid JSON")
            value = stack.pop()[0]
        if not stack:
            root.append(value)
            if BLANKS.fullmatch(text, at) is None:
                raise Refusal("invalid JSON: something follows")
            return root[0]
        container, key = stack[-1]
        container.append((key, value) if isinstance(container, Members) else value)
        want = ", or end"


# Times and node ids.

TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)


def instant(text):
    """Nanoseconds since 1970 of an RFC 3339 time."""
    found = TIME.fullmatch(text)
    if not found:
        raise Refusal(f"parsing time {text!r}: cannot parse")
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    fraction, sign, zone_hours, zone_minutes = found.groups()[6:]
    if not 1 <= month <= 12 or not 1 <= day <= days_in(year, month) or hour > 23 or minute > 59 or second > 59:
        raise Refusal(f"parsing time {text!r}: out of range")
    offset = 0
    if sign:
        if int(zone_hours) > 24 or int(zone_minutes) > 60:
            raise Refusal(f"parsing time {text!r}: zone out of range")
        offset = (int(zone_hours) * 60 + int(zone_minutes)) * (60 if sign == "+" else -60)
    # A whole cycle of the calendar later the year is one that the library knows.
    days = datetime.date(year + 400, month, day).toordinal() - 719_163 - 146_097
    seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offset
    return seconds * 1_000_000_000 + int(((fraction or "") + "000000000")[:9])


def days_in(year, month):
    return calendar.monthrange(year + 400, month)[1]


ZERO = instant(ZERO_TIME)


def utc(ns):
    """A time as the program writes it: UTC, as many digits as needed."""
    seconds, ns = divmod(ns, 1_000_000_000)
    return written(time.gmtime(seconds), ns) + "Z"


def local(ns):
    """The same in the local zone."""
    seconds, ns = divmod(ns, 1_000_000_000)
    here = time.localtime(seconds)
    offset = here.tm_gmtoff // 60
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}" if offset else "Z"
    return written(here, ns) + zone


def written(at, ns):
    fraction = f".{ns:09d}".rstrip("0").rstrip(".")
    day, clock = f"{at.tm_year:04d}-{at.tm_mon:02d}-{at.tm_mday:02d}", f"{at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d}"
    return f"{day}T{clock}{fraction}"


INTEGER = re.compile(r"[+-]?[0-9]+")


def integer(text):
    """A machine integer as the program reads one; None if it isn't."""
    if not text.isascii() or not INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -INT_MAX - 1 <= value <= INT_MAX else None


def node_id(text):
    if text.raw == "":
        return ""
    for at, part in enumerate(text.raw.split(".")):
        number = integer(part)
        if number is None or number <= 0 or (at == 0 and number != 1):
            raise Refusal(f"invalid node ID: {text.raw!r}")
    return text.raw


def encode(value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode()
