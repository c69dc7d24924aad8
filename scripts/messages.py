"""List every error message and warning that a user can see, with its file and line: what `make messages` prints.

A message is the text given to an exception or a warning, wherever that is created. A part that is filled in is shown in
braces. Where it is a local variable, the texts assigned to it follow on lines of their own.
"""

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("src/thali", "client/src/thali_client")
# Exceptions for mistakes in our own code, which tell a user nothing, and for Numba.
INTERNAL = {"AssertionError", "TypingError", "AttributeError", "NotImplementedError"}


def main() -> None:
    """Print the messages of all files, file by file."""
    files = [path for place in PLACES for path in sorted((ROOT / place).rglob("*.py"))]
    trees = {path: ast.parse(path.read_text()) for path in files}
    creators = exceptions(trees.values()) - INTERNAL | {"warn"}
    total = 0
    for path, tree in trees.items():
        lines = sorted(set(messages(tree, creators)), key=lambda message: message[0])
        total += sum(not text.startswith(" ") for _, text in lines)
        if lines:
            print(path.relative_to(ROOT))
        for line, text in lines:
            print(f"  {line:>4}  {text}")
    print(f"{total} messages", file=sys.stderr)


def exceptions(trees: Iterable[ast.Module]) -> set[str]:
    """Return the names of all exception classes: Python's, those of libraries that we raise, and our own."""
    names = {name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)}
    names |= {"HTTPException", "BadParameter", "OperationalError"}
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    while more := {c.name for c in classes if any(name_of(base) in names for base in c.bases)} - names:
        names |= more
    return names


def messages(tree: ast.Module, creators: set[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each message in a file, and of what fills its parts."""
    for function in [
        tree,
        *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)),
    ]:
        own = list(within(function))
        for call in own:
            if not isinstance(call, ast.Call) or (created := name_of(call.func)) not in creators:
                continue
            texts = [text for part in [*call.args, *(k.value for k in call.keywords)] if (text := text_of(part))]
            if texts:
                yield call.lineno, f"{created}: {' | '.join(texts)}"
                yield from assigned({n.id for n in ast.walk(call) if isinstance(n, ast.Name)}, own)


def within(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, or of the module's own level, without those of functions inside it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from within(child)


def assigned(names: set[str], nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the texts assigned to these local names."""
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in names:
            texts = [text for part in ast.walk(node.value) if (text := text_of(part)) and len(text.split()) > 1]
            if texts:
                yield node.lineno, f"    {{{node.targets[0].id}}} = {texts[0]}"


def text_of(node: ast.AST) -> str:
    """Return a string as written, with {…} for what is filled in; empty if it is not a string."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(
                f"{{{ast.unparse(p.value)}}}" if isinstance(p, ast.FormattedValue) else text_of(p) for p in parts
            )
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return f"{text_of(left) or '{…}'}{text_of(right) or '{…}'}" if text_of(left) or text_of(right) else ""
        case ast.IfExp(body=body, orelse=orelse):
            return " / ".join(filter(None, (text_of(body), text_of(orelse))))
    return ""


def name_of(node: ast.AST) -> str:
    """Return the last name of a dotted expression."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


if __name__ == "__main__":
    main()
