/*
 * Runs a fuzz target over the files of a corpus, in any build: inputs that once found something stay fixed, without
 * libFuzzer. Usage: fuzz_x DIRECTORY...
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *folder, const char *name)
{
    static uint8_t data[1 << 20];
    char path[4096];
    FILE *file = NULL;
    size_t size = 0;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return 1;
    }
    size = fread(data, 1, sizeof(data), file);
    fclose(file);
    (void)LLVMFuzzerTestOneInput(data, size);
    return 0;
}

static int replay_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry = NULL;
    int failed = 0;
    int count = 0;

    if (dir == NULL) {
        fprintf(stderr, "%s: cannot be read\n", folder);
        return 1;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        failed |= replay_file(folder, entry->d_name);
        count++;
    }
    closedir(dir);
    printf("%d inputs\n", count);
    return failed != 0 || count == 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    int failed = argc < 2;

    for (int i = 1; i < argc; i++)
        failed |= replay_folder(argv[i]);
    return failed;
}
