#include "cli/cli.h"
#include "http/http.h"

int main(int argc, char **argv)
{
    return cli_run(argc, argv, &http_companion);
}
