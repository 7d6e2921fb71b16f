/*
 * table_out: rows of named cells: a table with aligned columns for people, a JSON array of objects for programs.
 *
 *     static const struct table_column columns[] = {{"GROUP", "group"}, {"LAG", "lag", .number = true}};
 *     table_begin(&table, columns, 2);
 *     table_bytes(&table, group); table_i64(&table, 12);      cell by cell, row by row
 *     table_print(&table, stdout); table_end(&table);
 *
 * Memory   what does not fit into memory is left out, and table_print says so.
 * Threads  one.
 */
#ifndef OTTLA_CLI_TABLE_OUT_H
#define OTTLA_CLI_TABLE_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/bytes.h"

struct table_column {
    const char *title;
    const char *key; /* in JSON */
    bool number;     /* to the right */
};

struct table_cell {
    struct bytes text; /* as it is printed; null: "-", and null in JSON */
    int64_t number;
    double fraction;
    enum { CELL_NONE, CELL_TEXT, CELL_NUMBER, CELL_FRACTION } kind;
};

struct table {
    const struct table_column *columns;
    uint32_t column_count;
    struct table_cell *cells;
    uint32_t cell_count;
    uint32_t cell_room;
    struct arena arena;
    bool cut; /* out of memory */
};

void table_begin(struct table *table, const struct table_column *columns, uint32_t count);
void table_end(struct table *table);
/* Copied; control characters become '?'. Null is none. */
void table_bytes(struct table *table, struct bytes text);
void table_text(struct table *table, const char *text);
void table_i64(struct table *table, int64_t value);
/* With one digit behind the point. */
void table_fraction(struct table *table, double value);
void table_none(struct table *table);
uint32_t table_rows(const struct table *table);
void table_print(const struct table *table, FILE *to);
/* An array of objects; NULL without memory. The caller's. */
json_t *table_json(const struct table *table);

/* Pretty, with a line end; takes the reference. */
void table_show_json(json_t *value, FILE *to);

#endif
