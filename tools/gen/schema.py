"""Reads the schemas of src/protocol/schemas: Kafka's messages and log records in a compact form of our own.

A file holds the messages of one API or one record type. A line that begins with '#' is a comment. At the left
edge stands a message:

    KIND NAME [key N] versions RANGE flexible RANGE|none

KIND is request, response, header, data, record (metadata log), key or value (coordinator logs). Below it, two
spaces deeper a level, its fields in wire order, and before them the structures it uses twice ('struct NAME'):

    NAME TYPE [RANGE] [nullable [RANGE]] [tag N] [inflexible] [= DEFAULT] [secret]

RANGE    the versions that have the field (or in which it may be null): '3', '2-4', '3+'. Left out: all those of
         what holds the field.
TYPE     bool int8 int16 int32 int64 uint16 uint32 float64 uuid string bytes records, a structure's name, or
         '[]' and one of these. A structure's fields stand below the field that first names it.
tag N    a tagged field (KIP-482), left out of the bytes while it has its default.
DEFAULT  a number, true, false or null; left out: zero, empty, or a structure of defaults.
inflexible  keeps its old encoding in flexible versions.
secret   never printed.
"""

import os
import re

PRIMITIVES = ('bool', 'int8', 'int16', 'int32', 'int64', 'uint16', 'uint32', 'float64', 'uuid', 'string', 'bytes',
              'records')
KINDS = ('request', 'response', 'header', 'data', 'record', 'key', 'value')
INT_BITS = {'int8': 8, 'int16': 16, 'int32': 32, 'int64': 64, 'uint16': 16, 'uint32': 32}
RANGE = re.compile(r'^\d+(\+|-\d+)?$')


class SchemaError(Exception):
    pass


def snake(name):
    """ListOffsetsRequest -> list_offsets_request."""
    name = name.replace('KRaft', 'Kraft')
    return re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', name).lower()


def parse_range(text, outer):
    """The versions from..to that text names, which must lie in outer; None and 'none' are no versions."""
    if text == 'none':
        return None
    if not RANGE.match(text):
        raise SchemaError('not a range of versions: ' + text)
    if text.endswith('+'):
        low, high = int(text[:-1]), outer[1]
    elif '-' in text:
        low, high = (int(part) for part in text.split('-'))
    else:
        low = high = int(text)
    if low > high or low < outer[0] or high > outer[1]:
        raise SchemaError('versions %s are outside %d-%d' % (text, outer[0], outer[1]))
    return (low, high)


class Field:
    def __init__(self):
        self.name = self.type = None
        self.array = False
        self.versions = None        # (from, to)
        self.nullable = None        # (from, to), or None
        self.tag = None             # int
        self.tagged = None          # (from, to), or None
        self.inflexible = False
        self.default = None         # int, float, bool, str, or the word 'null'; None is the type's zero
        self.secret = False
        self.struct = None          # Struct, where the type is one


class Struct:
    def __init__(self, name, versions):
        self.name = name
        self.versions = versions
        self.fields = []
        self.shared = False
        self.c_name = None

    def tagged_fields(self):
        return sorted((f for f in self.fields if f.tagged), key=lambda f: f.tag)


class Message:
    def __init__(self):
        self.kind = self.name = self.family = self.file = None
        self.key = -1
        self.versions = None
        self.flexible = None        # (from, to), or None
        self.structs = []           # all but the message itself, inner ones first
        self.root = None

    @property
    def flexible_min(self):
        return self.flexible[0] if self.flexible else 32767


def parse_default(field, text):
    if text == 'null':
        if not field.nullable:
            raise SchemaError('null is no default of a field that is never null: ' + field.name)
        return 'null'
    if field.array or field.struct is not None:
        raise SchemaError('no such default: ' + field.name)
    if field.type == 'bool':
        if text not in ('true', 'false'):
            raise SchemaError('not a bool: ' + text)
        return text == 'true'
    if field.type in INT_BITS:
        bits = INT_BITS[field.type]
        value = int(text, 0)
        low, high = (0, 2 ** bits) if field.type.startswith('u') else (-2 ** (bits - 1), 2 ** (bits - 1))
        if not low <= value < high:
            raise SchemaError('%s does not hold %s' % (field.type, text))
        return value
    if field.type == 'float64':
        return float(text)
    raise SchemaError('no such default: ' + field.name)


def parse_field(words, outer):
    field = Field()
    if len(words) < 2:
        raise SchemaError('a field has a name and a type')
    field.name, field.type = words[0], words[1]
    if field.type.startswith('[]'):
        field.array = True
        field.type = field.type[2:]
    field.versions = outer
    rest = words[2:]
    default = None

    def optional_range(inside):
        if rest and RANGE.match(rest[0]):
            return parse_range(rest.pop(0), inside)
        return inside

    field.versions = optional_range(outer)
    while rest:
        word = rest.pop(0)
        if word == 'nullable':
            field.nullable = optional_range(field.versions)
        elif word == 'tag':
            field.tag = int(rest.pop(0))
            field.tagged = field.versions
        elif word == 'inflexible':
            field.inflexible = True
        elif word == 'secret':
            field.secret = True
        elif word == '=' and rest:
            default = rest.pop(0)
        else:
            raise SchemaError('not understood: ' + word)
    return field, default


def parse_file(path, family):
    messages = []
    message = None
    stack = []          # structures being filled, outermost first
    shared = {}
    pending = None      # the field whose structure may follow, one level deeper

    def finish():
        if message is None:
            return
        order = []

        def visit(struct, path_names):
            if struct.name in path_names:
                raise SchemaError('structure holds itself: ' + struct.name)
            for field in struct.fields:
                if field.type in PRIMITIVES:
                    continue
                if field.struct is None:
                    field.struct = shared.get(field.type)
                    if field.struct is None:
                        raise SchemaError('no such type: ' + field.type)
                visit(field.struct, path_names + [struct.name])
            if struct not in order:
                order.append(struct)

        visit(message.root, [])
        order.remove(message.root)
        message.structs = order
        for struct in order + [message.root]:
            tags = [f.tag for f in struct.fields if f.tagged]
            if len(tags) != len(set(tags)):
                raise SchemaError('a tag is used twice in ' + struct.name)
            for field in struct.fields:
                if field.tagged and (not message.flexible or field.tagged[0] < message.flexible[0]):
                    raise SchemaError('tagged before the first flexible version: ' + field.name)
        messages.append(message)

    with open(path, encoding='utf-8') as lines:
        for number, line in enumerate(lines, 1):
            try:
                text = line.rstrip('\n')
                if text.strip() == '' or text.startswith('#'):
                    continue
                indent = len(text) - len(text.lstrip(' '))
                words = text.split()
                if indent == 0:
                    finish()
                    message = Message()
                    message.kind, message.name = words[0], words[1]
                    message.family, message.file = family, os.path.basename(path)[:-len('.schema')]
                    if message.kind not in KINDS:
                        raise SchemaError('no such kind: ' + message.kind)
                    rest = words[2:]
                    while rest:
                        word, value = rest.pop(0), rest.pop(0)
                        if word == 'key':
                            message.key = int(value)
                        elif word == 'versions':
                            message.versions = parse_range(value, (0, 32766))
                        elif word == 'flexible':
                            message.flexible = parse_range(value, message.versions)
                        else:
                            raise SchemaError('not understood: ' + word)
                    message.root = Struct(message.name, message.versions)
                    shared, stack, pending = {}, [message.root], None
                    continue
                depth = indent // 2
                if indent % 2 != 0 or message is None:
                    raise SchemaError('indented by an odd number of spaces, or before any message')
                if words[0] == 'struct' and depth == 1 and len(words) == 2:
                    struct = Struct(words[1], message.versions)
                    struct.shared = True
                    shared[struct.name] = struct
                    stack, pending = [message.root, struct], None
                    continue
                if depth > len(stack):
                    if depth != len(stack) + 1 or pending is None:
                        raise SchemaError('indented too far')
                    if pending.type in PRIMITIVES or pending.type in shared:
                        raise SchemaError('no fields belong below ' + pending.name)
                    struct = Struct(pending.type, pending.versions)
                    pending.struct = struct
                    shared.setdefault(struct.name, struct)
                    stack.append(struct)
                del stack[depth:]
                field, default = parse_field(words, stack[-1].versions)
                if default is not None:
                    field.default = parse_default(field, default)
                if field.name in [f.name for f in stack[-1].fields]:
                    raise SchemaError('a second field of this name: ' + field.name)
                stack[-1].fields.append(field)
                pending = field
            except (SchemaError, ValueError, IndexError) as error:
                raise SchemaError('%s:%d: %s' % (path, number, error)) from None
    try:
        finish()
    except SchemaError as error:
        raise SchemaError('%s: %s' % (path, error)) from None
    return messages


def parse_all(paths):
    """All messages, each structure with its name in C."""
    messages = []
    for path in paths:
        messages += parse_file(path, os.path.basename(os.path.dirname(path)))
    owners = {}
    for message in messages:
        for struct in message.structs:
            owners.setdefault(struct.name, set()).add(message.name)
        owners.setdefault(message.name, set()).add(message.name)
    taken = set()
    for message in messages:
        for struct in message.structs + [message.root]:
            name = snake(struct.name)
            # A name that several messages use, or of one word only, says too little alone.
            if struct is not message.root and (len(owners[struct.name]) > 1 or '_' not in name):
                name = snake(message.name) + '_' + name
            if name in taken:
                raise SchemaError('two structures would be named ' + name)
            taken.add(name)
            struct.c_name = name
    return messages
