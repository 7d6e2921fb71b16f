#include "cli/terminal.h"

#include <stdbool.h>
#include <string.h>

static bool is_control(uint8_t byte)
{
    return byte < ' ' || byte == 0x7f;
}

/* One of C1 begins at i. */
static bool is_c1(struct bytes text, size_t i)
{
    return text.data[i] == 0xc2 && i + 1 < text.size && text.data[i + 1] >= 0x80 && text.data[i + 1] < 0xa0;
}

void terminal_print(struct bytes text, FILE *to)
{
    for (size_t i = 0; i < text.size; i++) {
        bool c1 = is_c1(text, i);

        (void)fputc(c1 || is_control(text.data[i]) ? '?' : text.data[i], to);
        i += c1;
    }
}

static bool is_plain(uint8_t byte)
{
    return byte_is_letter(byte) || byte_is_digit(byte) || (byte != '\0' && strchr("-_./:,@+", byte) != NULL);
}

void terminal_print_word(struct bytes text, FILE *to)
{
    bool plain = text.size > 0 && text.data[0] != '-';
    bool controls = false;

    for (size_t i = 0; i < text.size; i++) {
        plain = plain && is_plain(text.data[i]);
        controls = controls || is_control(text.data[i]) || is_c1(text, i);
    }
    if (plain) {
        terminal_print(text, to);
        return;
    }
    (void)fputs(controls ? "$'" : "'", to);
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];

        if (controls && (is_control(byte) || byte >= 0x80))
            (void)fprintf(to, "\\%03o", byte);
        else if (controls && (byte == '\'' || byte == '\\'))
            (void)fprintf(to, "\\%c", byte);
        else if (byte == '\'')
            (void)fputs("'\\''", to);
        else
            (void)fputc(byte, to);
    }
    (void)fputc('\'', to);
}
