/* The least that reading an export through SQLite costs: step over the rows of some queries and
   take every column as an integer. Usage: bound FILE QUERY... */

#include <sqlite3.h>
#include <stdio.h>

int main(int argc, char **argv) {
    sqlite3 *db;
    long long rows = 0, sum = 0;
    if (argc < 3 || sqlite3_open_v2(argv[1], &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        return 1;
    for (int i = 2; i < argc; i++) {
        sqlite3_stmt *query;
        if (sqlite3_prepare_v2(db, argv[i], -1, &query, NULL) != SQLITE_OK) {
            fprintf(stderr, "%s\n", sqlite3_errmsg(db));
            return 1;
        }
        int columns = sqlite3_column_count(query);
        while (sqlite3_step(query) == SQLITE_ROW) {
            rows++;
            for (int column = 0; column < columns; column++)
                sum += sqlite3_column_int64(query, column);
        }
        sqlite3_finalize(query);
    }
    sqlite3_close(db);
    /* Printed so that no compiler leaves the reading out. */
    printf("%lld rows, sum %lld\n", rows, sum);
    return 0;
}
