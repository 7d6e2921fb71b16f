"""Rules: a schema that is not understood stops the build with its file and line; structure names are found as
tools/gen/schema.py tells; what is generated is the same for the same schemas."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, 'tools', 'gen'))
sys.dont_write_bytecode = True
import schema  # noqa: E402

HEAD = 'request ThingRequest key 1 versions 0-4 flexible 2+\n'


def parse(text, name='thing'):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name + '.schema')
        Path(path).write_text(text, encoding='utf-8')
        return schema.parse_all([path])


class Good(unittest.TestCase):
    def test_everything_at_once(self):
        """Each part of the grammar comes out as it went in."""
        message, = parse(HEAD + '''# a comment
  struct Pair
    Key string
    Value string 3+ nullable 4+ = null
  Name string 0-1
  Pairs []Pair 1+
  Inner Inner 2+ tag 0
    Limit int64 3 = -2
  Old string inflexible secret
''')
        self.assertEqual((message.kind, message.key, message.versions, message.flexible), ('request', 1, (0, 4), (2, 4)))
        name, pairs, inner, old = message.root.fields
        self.assertEqual(name.versions, (0, 1))
        self.assertTrue(pairs.array)
        self.assertEqual(pairs.struct.c_name, 'thing_request_pair')
        self.assertEqual(pairs.struct.fields[1].nullable, (4, 4))
        self.assertEqual(pairs.struct.fields[1].default, 'null')
        self.assertEqual((inner.tag, inner.tagged), (0, (2, 4)))
        self.assertEqual((inner.struct.fields[0].versions, inner.struct.fields[0].default), ((3, 3), -2))
        self.assertTrue(old.inflexible and old.secret)

    def test_names(self):
        """A name of one word, or that two messages use, is told apart by its message's."""
        both = parse(HEAD + '  A []FooBar\n    X int8\n  B []Foo\n    X int8\n')[0]
        self.assertEqual([s.c_name for s in both.structs], ['foo_bar', 'thing_request_foo'])
        first, second = parse(HEAD + '  A []FooBar\n    X int8\n'
                              + HEAD.replace('request Thing', 'response Thing').replace('Request', 'Response')
                              + '  A []FooBar\n    X int8\n')
        self.assertEqual([s.c_name for m in (first, second) for s in m.structs],
                         ['thing_request_foo_bar', 'thing_response_foo_bar'])
        self.assertEqual(schema.snake('KRaftVersionFeature'), 'kraft_version_feature')
        self.assertEqual(schema.snake('ListOffsetsRequest'), 'list_offsets_request')

    def test_generated_twice_is_the_same(self):
        """Nothing depends on the order of a set or the time: builds reproduce."""
        paths = [os.path.join(TOP, 'src/protocol/schemas/api', name) for name in ('fetch.schema', 'produce.schema')]
        seen = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run([sys.executable, os.path.join(TOP, 'tools/gen/codecs.py'), '--out', folder, '--parts', '2',
                                *paths], check=True)
                seen.append({path.name: path.read_bytes() for path in Path(folder).iterdir()})
        self.assertEqual(seen[0], seen[1])
        self.assertIn('fetch.h', seen[0])


class Bad(unittest.TestCase):
    CASES = [
        ('  A int33\n', 'no such type'),
        ('  A\n', 'a name and a type'),
        ('  A int32 5+\n', 'outside'),
        ('  A int32 3-1\n', 'outside'),
        ('  A int32 sometimes\n', 'not understood'),
        ('  A int8 = 200\n', 'does not hold'),
        ('  A int8 = x\n', 'invalid literal'),
        ('  A bool = maybe\n', 'not a bool'),
        ('  A string = null\n', 'never null'),
        ('  A string = text\n', 'no such default'),
        ('  A int32\n  A int32\n', 'second field'),
        ('  A int32\n    B int32\n', 'no fields belong'),
        ('  A []Foo\n', 'no such type'),
        ('      A int32\n', 'too far'),
        ('   A int32\n', 'odd number'),
        ('  A int32 tag 0\n', 'before the first flexible version'),
        ('  A int32 2+ tag 0\n  B int32 2+ tag 0\n', 'used twice'),
        ('  struct Foo\n    A []Foo\n  B Foo\n', 'holds itself'),
    ]

    def test_each_is_refused_by_name(self):
        """Where and why, for each mistake."""
        for text, why in self.CASES:
            with self.subTest(text):
                with self.assertRaisesRegex(schema.SchemaError, why) as caught:
                    parse(HEAD + text)
                self.assertRegex(str(caught.exception), r'thing\.schema')

    def test_heads(self):
        """A message's own line is held to the same."""
        for head in ('question ThingRequest versions 0 flexible none\n', 'request Thing version 0\n',
                     'request Thing versions 3-1 flexible none\n', '  A int32\n'):
            with self.subTest(head):
                with self.assertRaises(schema.SchemaError):
                    parse(head)


if __name__ == '__main__':
    unittest.main()
