#!/usr/bin/env python3
"""Writes C from the schemas: one header a schema file, the codecs in a few files of about the same size.

    codecs.py --out DIR --parts N SCHEMA...

    DIR/<schema>.h      structures, version constants, typed functions
    DIR/codec_<i>.c     what reads, writes and describes them
    DIR/api_keys.h      enum api_key
    DIR/messages.h, .c  the table of all messages

How the C is named and used is told in src/protocol/message.h.
"""

import argparse
import os
import re

from schema import SchemaError, parse_all, snake

C_TYPES = {'bool': 'bool', 'int8': 'int8_t', 'int16': 'int16_t', 'int32': 'int32_t', 'int64': 'int64_t',
           'uint16': 'uint16_t', 'uint32': 'uint32_t', 'float64': 'double', 'uuid': 'struct uuid',
           'string': 'struct bytes', 'bytes': 'struct bytes', 'records': 'struct records'}
WIRE_NAMES = {'bool': 'bool', 'int8': 'i8', 'int16': 'i16', 'int32': 'i32', 'int64': 'i64', 'uint16': 'u16',
              'uint32': 'u32', 'float64': 'f64', 'uuid': 'uuid', 'string': 'string', 'bytes': 'bytes',
              'records': 'records'}
ARRAYS = ('bool', 'int8', 'int16', 'int32', 'int64', 'uuid', 'string', 'bytes')
FIXED_BYTES = {'bool': 1, 'int8': 1, 'int16': 2, 'int32': 4, 'int64': 8, 'uint16': 2, 'uint32': 4, 'float64': 8,
               'uuid': 16}
KEYWORDS = ('auto break case char const continue default do double else enum extern float for goto if inline int long '
            'register restrict return short signed sizeof static struct switch typedef union unsigned void volatile '
            'while bool true false').split()
KINDS = {'request': 'MESSAGE_REQUEST', 'response': 'MESSAGE_RESPONSE', 'header': 'MESSAGE_HEADER',
         'data': 'MESSAGE_DATA', 'record': 'MESSAGE_RECORD', 'key': 'MESSAGE_KEY', 'value': 'MESSAGE_VALUE'}
NOTE = '/* Written by tools/gen/codecs.py from src/protocol/schemas/%s. */\n'


def c_name(field):
    name = snake(field.name)
    return name + '_' if name in KEYWORDS else name


def condition(versions, outer):
    """A test of version for versions, where outer is known already; '' is always, None never."""
    low, high = max(versions[0], outer[0]), min(versions[1], outer[1])
    if low > high:
        return None
    if low == outer[0] and high == outer[1]:
        return ''
    if low == high:
        return 'version == %d' % low
    if high == outer[1]:
        return 'version >= %d' % low
    if low == outer[0]:
        return 'version <= %d' % high
    return 'version >= %d && version <= %d' % (low, high)


def never_flexible(message):
    return message.flexible is None


class Emitter:
    """The C of one message."""

    def __init__(self, message):
        self.message = message
        self.needs_default = set()
        for struct in message.structs + [message.root]:
            for field in struct.fields:
                if field.tagged and field.struct and not field.array:
                    self.mark_default(field.struct)

    def mark_default(self, struct):
        self.needs_default.add(struct.c_name)
        for field in struct.fields:
            if field.struct and not field.array and not field.nullable:
                self.mark_default(field.struct)

    # ---- sizes

    def flexible_at(self, version):
        return self.message.flexible is not None and version >= self.message.flexible[0]

    def bytes_min(self, struct, version):
        total = 0
        flexible = self.flexible_at(version)
        for field in struct.fields:
            if field.tagged or not field.versions[0] <= version <= field.versions[1]:
                continue
            compact = flexible and not field.inflexible
            if field.array or field.type in ('bytes', 'records'):
                total += 1 if compact else 4
            elif field.type == 'string':
                total += 1 if compact else 2
            elif field.struct:
                total += 1 if field.nullable else self.bytes_min(field.struct, version)
            else:
                total += FIXED_BYTES[field.type]
        return total + (1 if flexible else 0)

    def element(self, field):
        versions = range(field.versions[0], field.versions[1] + 1)
        compact = [self.bytes_min(field.struct, v) for v in versions if self.flexible_at(v)]
        plain = [self.bytes_min(field.struct, v) for v in versions if not self.flexible_at(v)]
        if min(compact + plain) < 1:
            raise SchemaError('an element without bytes: ' + field.struct.name)
        if compact and plain and min(compact) != min(plain):
            least = 'version >= %d ? %d : %d' % (self.message.flexible[0], min(compact), min(plain))
        else:
            least = '%d' % min(compact + plain)
        name = field.struct.c_name
        return '(struct wire_element){read_%s, sizeof(struct %s), %s}' % (name, name, least)

    # ---- forms

    def form(self, field, outer, tagged):
        if tagged:
            form = 'WIRE_COMPACT'
        elif field.inflexible or never_flexible(self.message):
            form = 'WIRE_PLAIN'
        else:
            form = 'form'
        if field.nullable:
            test = condition(field.nullable, outer)
            if test == '':
                form = 'WIRE_NULLABLE' if form == 'WIRE_PLAIN' else form + ' | WIRE_NULLABLE'
            elif test is not None:
                form += ' | wire_nullable(%s)' % test
        return form

    def form_line(self):
        if never_flexible(self.message):
            return None
        test = condition(self.message.flexible, self.message.versions)
        return '    const unsigned form = %s;\n' % ('WIRE_COMPACT' if test == '' else 'wire_compact(%s)' % test)

    # ---- defaults

    def initial(self, field):
        """The initialiser of a field, None where it is all zero."""
        name = c_name(field)
        if field.array:
            if field.nullable and field.default != 'null':
                return '.%s = WIRE_EMPTY' % name
            return None
        if field.type in ('string', 'bytes'):
            return None if field.default == 'null' else '.%s = BYTES_LITERAL("")' % name
        if field.type == 'records':
            return '.%s = {.null = true}' % name if field.default == 'null' else None
        if field.struct:
            if field.nullable:
                if field.default != 'null' and not field.tagged:
                    raise SchemaError('a nullable structure whose default is not null: ' + field.name)
                return None
            inner = self.initials(field.struct)
            return '.%s = {%s}' % (name, ', '.join(inner)) if inner else None
        if field.default in (None, 0, False):
            return None
        if field.type == 'bool':
            return '.%s = true' % name
        return '.%s = %s' % (name, self.number(field))

    def number(self, field):
        if field.type == 'int64':
            if field.default == -2 ** 63:
                return 'INT64_MIN'
            return 'INT64_C(%d)' % field.default
        if field.type == 'int32' and field.default == -2 ** 31:
            return 'INT32_MIN'
        return repr(field.default)

    def initials(self, struct):
        return [text for text in (self.initial(field) for field in struct.fields) if text is not None]

    def differs(self, field):
        """True in C where the field has not its default."""
        at = 'm->' + c_name(field)
        if field.array:
            if field.default == 'null':
                return at + ' != NULL'
            return '(%s == NULL || %s_count != 0)' % (at, at) if field.nullable else at + '_count != 0'
        if field.type in ('string', 'bytes'):
            if field.default == 'null':
                return at + '.data != NULL'
            return '(%s.data == NULL || %s.size != 0)' % (at, at) if field.nullable else at + '.size != 0'
        if field.type == 'records':
            raise SchemaError('records have no default to compare with: ' + field.name)
        if field.type == 'uuid':
            return '!uuid_is_zero(%s)' % at
        if field.struct:
            if not field.nullable:
                return '!is_default_%s(&%s)' % (field.struct.c_name, at)
            if field.default == 'null':
                return at + ' != NULL'
            return '(%s == NULL || !is_default_%s(%s))' % (at, field.struct.c_name, at)
        if field.type == 'bool':
            return '!' + at if field.default else at
        return '%s != %s' % (at, self.number(field) if field.default else '0')

    # ---- one field

    def read(self, field, outer, tagged):
        at = 'm->' + c_name(field)
        form = self.form(field, outer, tagged)
        if field.array:
            if field.struct:
                return '%s = wire_read_struct_array(r, arena, %s, version, %s, &%s_count);' % (
                    at, form, self.element(field), at)
            if field.type not in ARRAYS:
                raise SchemaError('no arrays of ' + field.type)
            return '%s = wire_read_%s_array(r, arena, %s, &%s_count);' % (at, WIRE_NAMES[field.type], form, at)
        if field.struct:
            if not field.nullable:
                return 'read_%s(r, arena, version, &%s);' % (field.struct.c_name, at)
            if field.nullable != field.versions:
                raise SchemaError('a structure that is nullable in some versions only: ' + field.name)
            return '%s = wire_read_%s_struct(r, arena, version, %s);' % (at, 'tagged' if tagged else 'nullable',
                                                                         self.element(field))
        if field.type == 'records':
            return '%s = wire_read_records(r, arena, %s);' % (at, form)
        if field.type in ('string', 'bytes'):
            return '%s = wire_read_%s(r, %s);' % (at, field.type, form)
        return '%s = wire_read_%s(r);' % (at, WIRE_NAMES[field.type])

    def write(self, field, outer, tagged):
        at = 'm->' + c_name(field)
        form = self.form(field, outer, tagged)
        if field.array:
            if field.struct:
                return 'wire_write_struct_array(w, %s, version, write_%s, sizeof(*%s), %s, %s_count);' % (
                    form, field.struct.c_name, at, at, at)
            return 'wire_write_%s_array(w, %s, %s, %s_count);' % (WIRE_NAMES[field.type], form, at, at)
        if field.struct:
            if not field.nullable:
                return 'write_%s(w, version, &%s);' % (field.struct.c_name, at)
            return 'wire_write_%s_struct(w, version, write_%s, %s);' % ('tagged' if tagged else 'nullable',
                                                                       field.struct.c_name, at)
        if field.type == 'records':
            return 'wire_write_records(w, %s, &%s);' % (form, at)
        if field.type in ('string', 'bytes'):
            return 'wire_write_%s(w, %s, %s);' % (field.type, form, at)
        return 'wire_write_%s(w, %s);' % (WIRE_NAMES[field.type], at)

    # ---- one structure

    def function(self, head, lines, parameters, local, used_form):
        """head, then the lines; parameters that they do not use are named so."""
        body = ''.join(lines)
        out = head + '{\n'
        if local and 'm->' in body:
            out += local
        if used_form and 'form' in body:
            out += self.form_line()
        for parameter in parameters:
            if not re.search(r'(?<![\w>.])%s\b' % parameter, out.split('{\n', 1)[1] + body):
                out += '    (void)%s;\n' % parameter
        return out + body + '}\n\n'

    @staticmethod
    def init_function(struct):
        name = struct.c_name
        return 'static void init_%s(void *to)\n{\n    %s_init(to);\n}\n\n' % (name, name)

    def read_function(self, struct):
        name = struct.c_name
        lines = ['    init_%s(to);\n' % name]
        outer = struct.versions
        for field in struct.fields:
            if field.tagged:
                continue
            test = condition(field.versions, outer)
            if test:
                lines.append('    if (%s)\n    ' % test)
            lines.append('    %s\n' % self.read(field, outer if not test else field.versions, False))
        lines += self.read_tags(struct)
        return self.function(
            'static void read_%s(struct wire_reader *r, struct arena *arena, int16_t version, void *to)\n' % name,
            lines, ('r', 'arena', 'version'), '    struct %s *m = to;\n' % name, True)

    def read_tags(self, struct):
        if never_flexible(self.message):
            return []
        flexible = condition(self.message.flexible, struct.versions)
        if flexible is None:
            return []
        lines = []
        tagged = struct.tagged_fields()
        if not tagged:
            if flexible:
                lines.append('    if (%s)\n    ' % flexible)
            lines.append('    wire_skip_tags(r);\n')
            return lines
        lines.append('    if (%s) {\n' % flexible if flexible else '    {\n')
        lines.append('        struct wire_tags tags = wire_read_tags(r);\n'
                     '        while (wire_next_tag(r, &tags))\n'
                     '            switch (tags.tag) {\n')
        inside = (max(self.message.flexible[0], struct.versions[0]), struct.versions[1])
        absent = [field for field in tagged if field.struct and field.nullable and not field.array
                  and field.default != 'null']
        for field in absent:
            lines.insert(1, '        bool has_%d = false;\n' % field.tag)
        for field in tagged:
            lines.append('            case %d:\n' % field.tag)
            if field in absent:
                lines.append('                has_%d = true;\n' % field.tag)
            test = condition(field.tagged, inside)
            read = self.read(field, field.tagged, True)
            if test:
                lines.append('                if (%s)\n                    %s\n' % (test, read))
                lines.append('                else\n                    wire_skip_tag(r);\n')
            else:
                lines.append('                %s\n' % read)
            lines.append('                break;\n')
        lines.append('            default:\n                wire_skip_tag(r);\n                break;\n            }\n')
        for field in absent:    # its default is no null, so it must be made
            name = field.struct.c_name
            lines.append('        if (!has_%d)\n            m->%s = wire_default_struct(r, arena, init_%s, sizeof(struct %s));\n'
                         % (field.tag, c_name(field), name, name))
        lines.append('    }\n')
        return lines

    def write_functions(self, struct):
        name = struct.c_name
        out = ''
        tagged = struct.tagged_fields()
        for field in tagged:
            out += self.function(
                'static void write_%s_tag_%d(struct wire_writer *w, int16_t version, const void *from)\n'
                % (name, field.tag), ['    %s\n' % self.write(field, field.tagged, True)], ('w', 'version'),
                '    const struct %s *m = from;\n' % name, False)
        lines = []
        outer = struct.versions
        for field in struct.fields:
            if field.tagged:
                continue
            test = condition(field.versions, outer)
            if test:
                lines.append('    if (%s)\n    ' % test)
            lines.append('    %s\n' % self.write(field, outer if not test else field.versions, False))
        flexible = None if never_flexible(self.message) else condition(self.message.flexible, struct.versions)
        if flexible is not None:
            inside = (max(self.message.flexible[0], struct.versions[0]), struct.versions[1])
            if not tagged:
                if flexible:
                    lines.append('    if (%s)\n    ' % flexible)
                lines.append('    wire_write_uvarint(w, 0);\n')
            else:
                lines.append('    if (%s) {\n' % flexible if flexible else '    {\n')
                for field in tagged:
                    test = condition(field.tagged, inside)
                    lines.append('        const bool has_%d = %s%s;\n'
                                 % (field.tag, test + ' && ' if test else '', self.differs(field)))
                lines.append('        wire_write_uvarint(w, %s);\n'
                             % ' + '.join('(uint32_t)has_%d' % field.tag for field in tagged))
                for field in tagged:
                    lines.append('        if (has_%d)\n            wire_write_tag(w, %d, version, write_%s_tag_%d, from);\n'
                                 % (field.tag, field.tag, name, field.tag))
                lines.append('    }\n')
        return out + self.function(
            'static void write_%s(struct wire_writer *w, int16_t version, const void *from)\n' % name, lines,
            ('w', 'version', 'from'), '    const struct %s *m = from;\n' % name, True)

    def default_function(self, struct):
        if struct.c_name not in self.needs_default:
            return ''
        tests = ' && '.join('!(%s)' % self.differs(field) for field in struct.fields)
        return ('static bool is_default_%s(const struct %s *m)\n{\n    return %s;\n}\n\n'
                % (struct.c_name, struct.c_name, tests))

    def description(self, struct):
        name = struct.c_name
        out = ''
        if struct.fields:
            out += 'static const struct message_field fields_%s[] = {\n' % name
            for field in struct.fields:
                at = c_name(field)
                parts = ['"%s"' % at, '&struct_%s' % field.struct.c_name if field.struct else 'NULL']
                number = field.default if isinstance(field.default, (int, bool)) else 0
                parts.append('INT64_MIN' if number == -2 ** 63 else 'INT64_C(%d)' % int(number))
                parts.append('offsetof(struct %s, %s)' % (name, at))
                parts.append('offsetof(struct %s, %s_count)' % (name, at) if field.array else '0')
                parts.append('FIELD_STRUCT' if field.struct else 'FIELD_' + field.type.upper())
                parts.append('true' if field.array else 'false')
                parts.append('true' if field.default == 'null' else 'false')
                parts.append('true' if field.secret else 'false')
                parts.append('%d' % field.tag if field.tagged else '-1')
                for versions in (field.versions, field.nullable, field.tagged):
                    parts.append('{%d, %d}' % (versions if versions else (0, -1)))
                out += '    {%s},\n' % ', '.join(parts)
            out += '};\n'
        out += ('static const struct message_struct struct_%s = {"%s", %s, init_%s, %d, sizeof(struct %s)};\n\n'
                % (name, name, 'fields_' + name if struct.fields else 'NULL', name, len(struct.fields), name))
        return out

    def codec(self):
        out = ''
        for struct in self.message.structs + [self.message.root]:
            out += self.init_function(struct) + self.read_function(struct) + self.default_function(struct)
            out += self.write_functions(struct) + self.description(struct)
        message, name = self.message, self.message.root.c_name
        out += ('const struct message_type %s_message = {\n'
                '    .name = "%s",\n    .kind = %s,\n    .family = MESSAGE_FAMILY_%s,\n    .api_key = %d,\n'
                '    .version_min = %d,\n    .version_max = %d,\n    .flexible_min = %s,\n'
                '    .structure = &struct_%s,\n    .read = read_%s,\n    .write = write_%s,\n};\n\n'
                % (name, message.name, KINDS[message.kind], message.family.upper(), message.key, message.versions[0],
                   message.versions[1], message.flexible_min if message.flexible else 'INT16_MAX', name, name, name))
        return out

    # ---- the header

    def comment(self, field, struct):
        notes = []
        if field.versions != struct.versions:
            notes.append(range_text(field.versions, self.message.versions))
        if field.nullable:
            notes.append('nullable' if field.nullable == field.versions
                         else 'nullable ' + range_text(field.nullable, self.message.versions))
        if field.tagged:
            notes.append('tag %d' % field.tag)
        if field.default is not None and field.default != 'null':
            notes.append('= %s' % (str(field.default).lower()))
        if field.default == 'null':
            notes.append('= null')
        elif field.tagged and field.struct and field.nullable and not field.array:
            notes.append('read as a structure of defaults where it is absent')
        return ' /* %s */' % ', '.join(notes) if notes else ''

    def structures(self):
        out = ''
        for struct in self.message.structs + [self.message.root]:
            out += 'struct %s {\n' % struct.c_name
            for field in struct.fields:
                c_type = 'struct ' + field.struct.c_name if field.struct else C_TYPES[field.type]
                pointer = '*' if field.array or (field.struct and field.nullable) else ''
                out += '    %s %s%s;%s\n' % (c_type, pointer, c_name(field), self.comment(field, struct))
                if field.array:
                    out += '    uint32_t %s_count;\n' % c_name(field)
            if not struct.fields:
                out += '    bool unused; /* it has no fields */\n'
            out += '};\n\n'
        return out

    def typed(self):
        message, name = self.message, self.message.root.c_name
        upper = name.upper()
        out = 'enum {\n'
        if message.key >= 0:
            out += '    %s_API_KEY = %d,\n' % (upper, message.key)
        out += '    %s_VERSION_MIN = %d,\n    %s_VERSION_MAX = %d,\n' % (upper, message.versions[0], upper,
                                                                       message.versions[1])
        out += '    %s_FLEXIBLE_MIN = %s,\n};\n\n' % (upper, message.flexible_min if message.flexible else 'INT16_MAX')
        out += 'extern const struct message_type %s_message;\n\n' % name
        for struct in self.message.structs + [self.message.root]:
            initials = self.initials(struct)
            out += ('static inline void %s_init(struct %s *m)\n{\n    *m = (struct %s){%s};\n}\n\n'
                    % (struct.c_name, struct.c_name, struct.c_name, ', '.join(initials) if initials else '0'))
        out += ('MUST_CHECK static inline enum err %s_read(struct wire_reader *r, struct arena *arena, int16_t version,\n'
                '    struct %s *m)\n{\n    return message_read(&%s_message, r, arena, version, m);\n}\n\n'
                % (name, name, name))
        out += ('static inline void %s_write(struct wire_writer *w, int16_t version, const struct %s *m)\n{\n'
                '    message_write(&%s_message, w, version, m);\n}\n\n' % (name, name, name))
        out += ('static inline struct wire_size %s_size(int16_t version, const struct %s *m)\n{\n'
                '    return message_size(&%s_message, version, m);\n}\n\n' % (name, name, name))
        out += ('static inline size_t %s_print(int16_t version, const struct %s *m, char *text, size_t size)\n{\n'
                '    return message_print(&%s_message, version, m, text, size);\n}\n\n' % (name, name, name))
        return out


def range_text(versions, outer):
    if versions[0] == versions[1]:
        return 'v%d' % versions[0] if versions[1] < outer[1] else 'v%d+' % versions[0]
    if versions[1] >= outer[1]:
        return 'v%d+' % versions[0]
    return 'v%d-%d' % versions


def write_if_changed(path, text):
    try:
        with open(path, encoding='utf-8') as file:
            if file.read() == text:
                return
    except FileNotFoundError:
        pass
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def header_text(stem, messages):
    guard = 'OTTLA_PROTOCOL_GEN_%s_H' % stem.upper()
    out = NOTE % ('%s/%s.schema' % (messages[0].family, stem))
    out += '#ifndef %s\n#define %s\n\n#include "protocol/message.h"\n\n' % (guard, guard)
    for message in messages:
        emitter = Emitter(message)
        out += emitter.structures() + emitter.typed()
    return out + '#endif\n'


def parts_of(files, count):
    """The files dealt into count parts of about as many fields each, in order."""
    weights = [sum(len(s.fields) + 2 for m in messages for s in m.structs + [m.root]) for _, messages in files]
    total, parts, part, sum_so_far = sum(weights), [], [], 0
    for file, weight in zip(files, weights):
        if part and sum_so_far >= total * (len(parts) + 1) / count and len(parts) < count - 1:
            parts.append(part)
            part = []
        part.append(file)
        sum_so_far += weight
    parts.append(part)
    return parts + [[]] * (count - len(parts))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--out', required=True)
    parser.add_argument('--parts', type=int, required=True)
    parser.add_argument('schemas', nargs='+')
    options = parser.parse_args()
    try:
        messages = parse_all(options.schemas)
        files = {}
        for message in messages:
            files.setdefault(message.file, []).append(message)
        files = sorted(files.items())
        for stem, group in files:
            write_if_changed(os.path.join(options.out, stem + '.h'), header_text(stem, group))
        for index, part in enumerate(parts_of(files, options.parts)):
            out = NOTE % 'all'
            out += ''.join('#include "protocol/gen/%s.h"\n' % stem for stem, _ in part) + '\n'
            out += ''.join(Emitter(message).codec() for _, group in part for message in group)
            write_if_changed(os.path.join(options.out, 'codec_%d.c' % index), out)
    except SchemaError as error:
        raise SystemExit('codecs.py: %s' % error)

    apis = sorted((m.key, m.name[:-len('Request')]) for m in messages if m.kind == 'request')
    key_max = apis[-1][0]
    out = NOTE % 'all' + '#ifndef OTTLA_PROTOCOL_GEN_API_KEYS_H\n#define OTTLA_PROTOCOL_GEN_API_KEYS_H\n\n'
    out += 'enum api_key {\n' + ''.join('    API_%s = %d,\n' % (snake(name).upper(), key) for key, name in apis)
    out += '};\n\nenum { API_KEY_MAX = %d };\n\n#endif\n' % key_max
    write_if_changed(os.path.join(options.out, 'api_keys.h'), out)

    out = NOTE % 'all' + '#ifndef OTTLA_PROTOCOL_GEN_MESSAGES_H\n#define OTTLA_PROTOCOL_GEN_MESSAGES_H\n\n'
    out += '#include "protocol/gen/api_keys.h"\n#include "protocol/message.h"\n\n'
    out += 'enum { MESSAGE_TYPE_COUNT = %d };\n\n' % len(messages)
    out += ('/* All messages, in the order of their names. */\n'
            'extern const struct message_type *const message_types[MESSAGE_TYPE_COUNT];\n'
            '/* By API key; NULL where there is no such API. */\n'
            'extern const struct message_type *const message_requests[API_KEY_MAX + 1];\n'
            'extern const struct message_type *const message_responses[API_KEY_MAX + 1];\n\n#endif\n')
    write_if_changed(os.path.join(options.out, 'messages.h'), out)
    out = NOTE % 'all' + '#include "protocol/gen/messages.h"\n\n'
    out += ''.join('#include "protocol/gen/%s.h"\n' % stem for stem, _ in files) + '\n'
    out += 'const struct message_type *const message_types[MESSAGE_TYPE_COUNT] = {\n'
    out += ''.join('    &%s_message,\n' % m.root.c_name for m in sorted(messages, key=lambda m: m.name)) + '};\n\n'
    for kind in ('request', 'response'):
        out += 'const struct message_type *const message_%ss[API_KEY_MAX + 1] = {\n' % kind
        out += ''.join('    [API_%s] = &%s_message,\n' % (snake(m.name[:-len(kind)]).upper(), m.root.c_name)
                       for m in messages if m.kind == kind) + '};\n\n'
    write_if_changed(os.path.join(options.out, 'messages.c'), out)


if __name__ == '__main__':
    main()
