#include "cli/table_out.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "cli/terminal.h"

enum { TABLE_BYTES_MAX = 512 * 1024 * 1024, CELLS_FIRST = 64, COLUMNS_MAX = 16, GAP = 2, JSON_INDENT_WIDTH = 2 };

void table_begin(struct table *table, const struct table_column *columns, uint32_t count)
{
    *table = (struct table){.columns = columns, .column_count = count};
    arena_init(&table->arena, TABLE_BYTES_MAX);
}

void table_end(struct table *table)
{
    mem_free(table->cells);
    arena_deinit(&table->arena);
}

static void add(struct table *table, struct table_cell cell)
{
    if (table->cut || mem_grow(&table->cells, &table->cell_room, table->cell_count + 1, CELLS_FIRST,
                               sizeof(*table->cells)) != ERR_OK) {
        table->cut = true;
        return;
    }
    table->cells[table->cell_count++] = cell;
}

void table_bytes(struct table *table, struct bytes text)
{
    struct table_cell cell = {.kind = text.data == NULL ? CELL_NONE : CELL_TEXT};

    if (arena_copy(&table->arena, text, &cell.text) != ERR_OK) {
        table->cut = true;
        return;
    }
    add(table, cell);
}

void table_text(struct table *table, const char *text)
{
    table_bytes(table, bytes_of_text(text));
}

void table_i64(struct table *table, int64_t value)
{
    add(table, (struct table_cell){
                   .kind = CELL_NUMBER, .number = value, .text = arena_printf(&table->arena, "%" PRId64, value)});
}

void table_fraction(struct table *table, double value)
{
    add(table, (struct table_cell){
                   .kind = CELL_FRACTION, .fraction = value, .text = arena_printf(&table->arena, "%.1f", value)});
}

void table_none(struct table *table)
{
    add(table, (struct table_cell){.kind = CELL_NONE});
}

uint32_t table_rows(const struct table *table)
{
    return table->cell_count / table->column_count;
}

/* Code points: close enough to what a terminal makes of it. */
static size_t width_of(struct bytes text)
{
    size_t width = 0;

    for (size_t i = 0; i < text.size; i++)
        width += (text.data[i] & 0xc0) != 0x80;
    return width;
}

/* What is not there is a dash, but in a column without a title, which holds remarks. */
static struct bytes shown(const struct table *table, uint32_t row, uint32_t column)
{
    const struct table_cell *cell = &table->cells[row * table->column_count + column];

    if (cell->kind != CELL_NONE && cell->text.size > 0)
        return cell->text;
    return table->columns[column].title[0] == '\0' ? BYTES_LITERAL("") : BYTES_LITERAL("-");
}

static void print_cell(struct bytes text, size_t width, bool right, bool last, FILE *to)
{
    size_t pad = width - width_of(text);

    if (right)
        fprintf(to, "%*s", (int)pad, "");
    terminal_print(text, to);
    if (!last)
        fprintf(to, "%*s", (int)(right ? 0 : pad) + GAP, "");
}

static size_t column_width(const struct table *table, uint32_t column)
{
    size_t width = strlen(table->columns[column].title);

    for (uint32_t row = 0; row < table_rows(table); row++) {
        size_t of_cell = width_of(shown(table, row, column));

        width = of_cell > width ? of_cell : width;
    }
    return width;
}

void table_print(const struct table *table, FILE *to)
{
    size_t widths[COLUMNS_MAX];
    uint32_t columns = table->column_count;

    assert(columns <= COLUMNS_MAX);
    for (uint32_t column = 0; column < columns; column++)
        widths[column] = column_width(table, column);
    for (uint32_t row = 0; row <= table_rows(table); row++) {
        for (uint32_t column = 0; column < columns; column++)
            print_cell(row == 0 ? bytes_of_text(table->columns[column].title) : shown(table, row - 1, column),
                       widths[column], table->columns[column].number, column == columns - 1, to);
        fputs("\n", to);
    }
    if (table->cut)
        fputs("(cut: out of memory)\n", to);
}

static json_t *cell_json(const struct table_cell *cell)
{
    switch (cell->kind) {
    case CELL_NUMBER:
        return json_integer(cell->number);
    case CELL_FRACTION:
        return json_real(cell->fraction);
    case CELL_TEXT:
        return json_text(cell->text);
    default:
        return json_null();
    }
}

json_t *table_json(const struct table *table)
{
    json_t *rows = json_array();

    for (uint32_t row = 0; rows != NULL && row < table_rows(table); row++) {
        json_t *object = json_object();

        for (uint32_t column = 0; object != NULL && column < table->column_count; column++)
            (void)json_object_set_new(object, table->columns[column].key,
                                      cell_json(&table->cells[row * table->column_count + column]));
        (void)json_array_append_new(rows, object);
    }
    return rows;
}

void table_show_json(json_t *value, FILE *to)
{
    if (value != NULL)
        (void)json_dumpf(value, to, JSON_INDENT(JSON_INDENT_WIDTH) | JSON_REAL_PRECISION(12));
    fputs("\n", to);
    json_decref(value);
}
