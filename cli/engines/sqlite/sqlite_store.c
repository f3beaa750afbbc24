// SPDX-License-Identifier: MIT
// sqlite_store.c: the engine libqkv_sqlite: texts, files and settings of an index in SQLite.
#include "sqlite_store.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// "qkvi" as the application id of the database, by which `file` and others know it
enum { APPLICATION = 0x716b7669, VERSION = 2 };

// The tables; an index whose schema has another text is refused, so that no view, trigger or
// generated column of a foreign file is ever computed.
static const char *const schema[] = {
    "CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    ("CREATE TABLE file (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, bytes INTEGER NOT "
     "NULL, "
     "sha256 TEXT NOT NULL, first INTEGER NOT NULL, passages INTEGER NOT NULL, folder INTEGER NOT "
     "NULL)"),
    ("CREATE TABLE passage (id INTEGER PRIMARY KEY, file INTEGER NOT NULL, line INTEGER NOT NULL, "
     "text TEXT NOT NULL, key TEXT, metadata TEXT)"),
};
enum { TABLES = sizeof schema / sizeof *schema };

enum { SET, GET, ADD_FILE, ADD_PASSAGE, FILE_NAMED, FILE_ID, PASSAGE, COUNT, PARSE, STATEMENTS };
static const char *const statements[STATEMENTS] = {
    [SET] = "INSERT INTO setting VALUES (?1, ?2)",
    [GET] = "SELECT value FROM setting WHERE name = ?1",
    [ADD_FILE] = "INSERT INTO file VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    [ADD_PASSAGE] = "INSERT INTO passage VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    [FILE_NAMED] = "SELECT id, bytes, first, passages, folder, name, sha256 FROM file "
                   "WHERE name = ?1",
    [FILE_ID] = "SELECT id, bytes, first, passages, folder, name, sha256 FROM file WHERE id = ?1",
    // of a file that others wrote, what is no JSON is left out
    [PASSAGE] = "SELECT file, line, text, iif(json_valid(key), json(key), NULL), "
                "iif(json_valid(metadata), json(metadata), NULL) FROM passage WHERE id = ?1 + 1",
    [COUNT] = "SELECT (SELECT count(*) FROM file), (SELECT count(*) FROM passage)",
    // ?2: the path of the field
    [PARSE] = "SELECT json_valid(?1) AND json_type(?1) = 'object', json_type(?1, ?2), "
              "json_extract(?1, ?2), CASE WHEN json_type(?1, '$.id') IN ('text', 'integer', "
              "'real') THEN ?1 -> '$.id' END, json_remove(?1, ?2, '$.id'), "
              "(SELECT key FROM json_each(?1) GROUP BY key HAVING count(*) > 1)",
};

struct store {
    sqlite3 *db;
    sqlite3_stmt *made[STATEMENTS];
};

// Fills the reason of a failed call of SQLite.
static enum store_status fail(struct store *s, int code, struct store_reason *why)
{
    const int last = s->db ? sqlite3_extended_errcode(s->db) : code;
    why->code = sqlite_files_errno();
    if ((code & 0xff) == SQLITE_NOMEM || (last & 0xff) == SQLITE_NOMEM ||
        last == SQLITE_IOERR_NOMEM)
        why->code = ENOMEM;
    snprintf(why->text, sizeof why->text, "%s",
             s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(code));
    return why->code ? STORE_FULL : STORE_BROKEN;
}

static enum store_status run(struct store *s, const char *sql, struct store_reason *why)
{
    const int code = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return code ? fail(s, code, why) : STORE_OK;
}

// Runs a statement whose result is one number.
static enum store_status number(struct store *s, const char *sql, int64_t *out,
                                struct store_reason *why)
{
    sqlite3_stmt *q = NULL;
    int code = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);
    if (!code) code = sqlite3_step(q);
    const enum store_status status = code == SQLITE_ROW ? STORE_OK : fail(s, code, why);
    *out = status ? 0 : sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return status;
}

static enum store_status broken(struct store_reason *why, const char *text)
{
    why->code = 0;
    snprintf(why->text, sizeof why->text, "%s", text);
    return STORE_BROKEN;
}

// Compares the schema of the database with the tables above.
static enum store_status check_schema(struct store *s, struct store_reason *why)
{
    sqlite3_stmt *q = NULL;
    int code = sqlite3_prepare_v2(
        s->db, "SELECT type, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid", -1, &q,
        NULL);
    int n = 0;
    enum store_status status = STORE_OK;
    while (!code && (code = sqlite3_step(q)) == SQLITE_ROW && !status) {
        const char *sql = (const char *)sqlite3_column_text(q, 1); // it is not NULL
        if (!sql)
            status = fail(s, SQLITE_NOMEM, why);
        else if (n == TABLES || strcmp(sql, schema[n++]) != 0)
            status = broken(why, "its tables are not the tables of an index");
        code = SQLITE_OK;
    }
    if (!status && code != SQLITE_DONE) status = fail(s, code, why);
    if (!status && n < TABLES) status = broken(why, "tables of an index are missing");
    sqlite3_finalize(q);
    return status;
}

static enum store_status check(struct store *s, struct store_reason *why)
{
    int64_t application, version;
    enum store_status status = number(s, "PRAGMA application_id", &application, why);
    if (!status) status = number(s, "PRAGMA user_version", &version, why);
    if (status) return status;
    if (application != APPLICATION) return broken(why, "the file is another SQLite database");
    if (version > VERSION) {
        snprintf(why->text, sizeof why->text, "expected version %d, found %lld", VERSION,
                 (long long)version);
        return STORE_LATER;
    }
    if (version != VERSION) {
        snprintf(why->text, sizeof why->text,
                 "expected version %d, found %lld; make it again with qkv index --force", VERSION,
                 (long long)version);
        why->code = 0;
        return STORE_BROKEN;
    }
    return check_schema(s, why);
}

static enum store_status create(struct store *s, struct store_reason *why)
{
    char sql[120];
    snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d; BEGIN",
             APPLICATION, VERSION);
    enum store_status status =
        run(s, "PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", why);
    if (!status) status = run(s, sql, why);
    for (int i = 0; i < TABLES && !status; i++) status = run(s, schema[i], why);
    return status;
}

static void store_close(struct store *s)
{
    if (!s) return;
    for (int i = 0; i < STATEMENTS; i++) sqlite3_finalize(s->made[i]);
    sqlite3_close(s->db);
    free(s);
}

static enum store_status store_open(struct store **out, int fd, int creates,
                                    struct store_reason *why)
{
    char name[32];
    struct store *s = calloc(1, sizeof *s);
    *out = NULL;
    *why = (struct store_reason){ .code = ENOMEM, .text = "out of memory" };
    if (!s) return STORE_FULL;
    snprintf(name, sizeof name, "%d", fd);
    int code = sqlite_files_init();
    if (!code)
        code = sqlite3_open_v2(
            name, &s->db,
            (creates ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY) |
                SQLITE_OPEN_NOMUTEX,
            SQLITE_FILES);
    enum store_status status = code ? fail(s, code, why) : STORE_OK;
    if (!status) {
        sqlite3_extended_result_codes(s->db, 1);
        // a new database has no journal, which a defensive connection refuses
        sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, !creates, NULL);
        status = run(s,
                     "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; "
                     "PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0",
                     why);
    }
    if (!status) status = creates ? create(s, why) : check(s, why);
    if (status)
        store_close(s);
    else
        *out = s;
    return status;
}

static enum store_status store_finish(struct store *s, int64_t *bytes, struct store_reason *why)
{
    int64_t pages = 0;
    enum store_status status = number(s, "PRAGMA page_count", &pages, why);
    if (!status && !sqlite3_get_autocommit(s->db)) status = run(s, "COMMIT", why);
    if (!status) status = number(s, "PRAGMA page_count", &pages, why);
    *bytes = pages * 4096;
    return status;
}

// Returns a statement, ready to bind; NULL: an error.
static sqlite3_stmt *statement(struct store *s, int which)
{
    if (!s->made[which])
        sqlite3_prepare_v3(s->db, statements[which], -1, SQLITE_PREPARE_PERSISTENT, &s->made[which],
                           NULL);
    if (s->made[which]) sqlite3_reset(s->made[which]);
    return s->made[which];
}

static void bind(sqlite3_stmt *q, int at, const struct store_text *t)
{
    if (t->at)
        sqlite3_bind_text64(q, at, t->at, t->bytes, SQLITE_STATIC, SQLITE_UTF8);
    else
        sqlite3_bind_null(q, at);
}

// Reads n columns of a row as texts; NULL is an absent text.  Without memory SQLite returns no text
// for a column that is not NULL.
static enum store_status read_texts(struct store *s, sqlite3_stmt *q, int from,
                                    struct store_text *const *out, int n, struct store_reason *why)
{
    for (int i = 0; i < n; i++) {
        const bool absent = sqlite3_column_type(q, from + i) == SQLITE_NULL;
        const char *text = absent ? NULL : (const char *)sqlite3_column_text(q, from + i);
        if (!absent && !text) return fail(s, SQLITE_NOMEM, why);
        *out[i] = (struct store_text){ text, text ? (size_t)sqlite3_column_bytes(q, from + i) : 0 };
    }
    return STORE_OK;
}

// Runs a statement that changes a row.
static enum store_status change(struct store *s, sqlite3_stmt *q, struct store_reason *why)
{
    const int code = q ? sqlite3_step(q) : SQLITE_ERROR;
    return code == SQLITE_DONE ? STORE_OK : fail(s, code, why);
}

// Runs a statement that reads at most one row.
static enum store_status read_row(struct store *s, sqlite3_stmt *q, struct store_reason *why)
{
    const int code = q ? sqlite3_step(q) : SQLITE_ERROR;
    return code == SQLITE_ROW ? STORE_OK : code == SQLITE_DONE ? STORE_NONE : fail(s, code, why);
}

static enum store_status store_set(struct store *s, const char *name, const char *value,
                                   struct store_reason *why)
{
    sqlite3_stmt *q = statement(s, SET);
    if (q) sqlite3_bind_text(q, 1, name, -1, SQLITE_STATIC);
    if (q) sqlite3_bind_text(q, 2, value, -1, SQLITE_STATIC);
    return change(s, q, why);
}

static enum store_status store_get(struct store *s, const char *name, struct store_text *value,
                                   struct store_reason *why)
{
    sqlite3_stmt *q = statement(s, GET);
    if (q) sqlite3_bind_text(q, 1, name, -1, SQLITE_STATIC);
    enum store_status status = read_row(s, q, why);
    *value = (struct store_text){ NULL, 0 };
    if (!status) status = read_texts(s, q, 0, &value, 1, why);
    if (!status && !value->at) status = broken(why, "a row of the table setting is malformed");
    return status;
}

static enum store_status store_add_file(struct store *s, const struct store_file *f,
                                        struct store_reason *why)
{
    sqlite3_stmt *q = statement(s, ADD_FILE);
    if (q) {
        sqlite3_bind_int64(q, 1, f->id);
        bind(q, 2, &f->name);
        sqlite3_bind_int64(q, 3, f->bytes);
        bind(q, 4, &f->sha256);
        sqlite3_bind_int64(q, 5, f->first);
        sqlite3_bind_int64(q, 6, f->passages);
        sqlite3_bind_int64(q, 7, f->folder);
    }
    return change(s, q, why);
}

static enum store_status store_add_passage(struct store *s, int64_t n,
                                           const struct store_passage *p, struct store_reason *why)
{
    sqlite3_stmt *q = statement(s, ADD_PASSAGE);
    if (q) {
        sqlite3_bind_int64(q, 1, n + 1);
        sqlite3_bind_int64(q, 2, p->file);
        sqlite3_bind_int64(q, 3, p->line);
        bind(q, 4, &p->text);
        bind(q, 5, &p->key);
        bind(q, 6, &p->metadata);
    }
    return change(s, q, why);
}

static enum store_status read_file(struct store *s, sqlite3_stmt *q, struct store_file *f,
                                   struct store_reason *why)
{
    enum store_status status = read_row(s, q, why);
    *f = (struct store_file){ 0 };
    if (status) return status;
    *f = (struct store_file){ .id = sqlite3_column_int64(q, 0),
                              .bytes = sqlite3_column_int64(q, 1),
                              .first = sqlite3_column_int64(q, 2),
                              .passages = sqlite3_column_int64(q, 3),
                              .folder = sqlite3_column_int64(q, 4) };
    struct store_text *const texts[] = { &f->name, &f->sha256 };
    status = read_texts(s, q, 5, texts, 2, why);
    if (status) return status;
    if (!f->name.at || !f->sha256.at || f->first < 0 || f->passages < 0)
        return broken(why, "a row of the table file is malformed");
    return STORE_OK;
}

static enum store_status store_file_named(struct store *s, const char *name, struct store_file *f,
                                          struct store_reason *why)
{
    sqlite3_stmt *q = statement(s, FILE_NAMED);
    if (q) sqlite3_bind_text(q, 1, name, -1, SQLITE_STATIC);
    return read_file(s, q, f, why);
}

static enum store_status store_file_id(struct store *s, int64_t id, struct store_file *f,
                                       struct store_reason *why)
{
    sqlite3_stmt *q = statement(s, FILE_ID);
    if (q) sqlite3_bind_int64(q, 1, id);
    return read_file(s, q, f, why);
}

// Reads text, key and metadata, which are the columns 2 to 4.
static enum store_status read_passage_texts(struct store *s, sqlite3_stmt *q,
                                            struct store_passage *p, struct store_reason *why)
{
    struct store_text *const texts[] = { &p->text, &p->key, &p->metadata };
    return read_texts(s, q, 2, texts, 3, why);
}

static enum store_status store_passage_at(struct store *s, int64_t n, struct store_passage *p,
                                          struct store_reason *why)
{
    sqlite3_stmt *q = statement(s, PASSAGE);
    if (q) sqlite3_bind_int64(q, 1, n);
    enum store_status status = read_row(s, q, why);
    *p = (struct store_passage){ 0 };
    if (status) return status;
    p->file = sqlite3_column_int64(q, 0);
    p->line = sqlite3_column_int64(q, 1);
    status = read_passage_texts(s, q, p, why);
    if (status) return status;
    return p->text.at ? STORE_OK : broken(why, "a row of the table passage is malformed");
}

static enum store_status store_count(struct store *s, int64_t *files, int64_t *passages,
                                     struct store_reason *why)
{
    sqlite3_stmt *q = statement(s, COUNT);
    const enum store_status status = read_row(s, q, why);
    if (status) return status;
    *files = sqlite3_column_int64(q, 0);
    *passages = sqlite3_column_int64(q, 1);
    return STORE_OK;
}

static enum store_status bad_line(struct store_reason *why, const char *text)
{
    why->code = 0;
    snprintf(why->text, sizeof why->text, "%s", text);
    return STORE_LINE;
}

static enum store_status parse(struct store *s, const char *line, size_t bytes, const char *field,
                               struct store_passage *p, struct store_reason *why)
{
    char path[200];
    sqlite3_stmt *q = statement(s, PARSE);
    const int n = snprintf(path, sizeof path, "$.\"%s\"", field);
    if (n >= (int)sizeof path || strchr(field, '"'))
        return bad_line(why, "the name of the field is too long or has a quote");
    if (q) sqlite3_bind_text64(q, 1, line, bytes, SQLITE_STATIC, SQLITE_UTF8);
    if (q) sqlite3_bind_text(q, 2, path, -1, SQLITE_TRANSIENT);
    const int code = q ? sqlite3_step(q) : SQLITE_ERROR;
    const bool memory = (sqlite3_errcode(s->db) & 0xff) == SQLITE_NOMEM;
    if (!memory && (code & 0xff) == SQLITE_ERROR) return bad_line(why, sqlite3_errmsg(s->db));
    if (code != SQLITE_ROW) return fail(s, code, why);
    if (!sqlite3_column_int(q, 0)) return bad_line(why, "expected a JSON object, found other text");
    struct store_text type = { 0 }, twice = { 0 };
    struct store_text *const types[] = { &type }, *const twices[] = { &twice };
    enum store_status status = read_texts(s, q, 1, types, 1, why);
    if (!status) status = read_texts(s, q, 5, twices, 1, why);
    if (status) return status;
    if (twice.at) {
        snprintf(why->text, sizeof why->text,
                 "expected each member of an object once, found \"%.80s\" twice", twice.at);
        why->code = 0;
        return STORE_LINE;
    }
    if (!type.at || strcmp(type.at, "text") != 0) {
        snprintf(why->text, sizeof why->text, "expected a text in the member \"%.80s\", found %s",
                 field, type.at ? type.at : "no such member");
        why->code = 0;
        return STORE_LINE;
    }
    *p = (struct store_passage){ 0 };
    status = read_passage_texts(s, q, p, why);
    if (status) return status;
    if (p->metadata.at && !strcmp(p->metadata.at, "{}")) p->metadata.at = NULL;
    return STORE_OK;
}

static enum store_status store_parse(struct store *s, const char *line, size_t bytes,
                                     const char *field, struct store_passage *p,
                                     struct store_reason *why)
{
    const enum store_status status = parse(s, line, bytes, field, p, why);
    // without memory, SQLite may find that a text is no JSON: it is asked again
    return status == STORE_LINE ? parse(s, line, bytes, field, p, why) : status;
}

static const char *store_version(void)
{
    return sqlite3_libversion();
}

__attribute__((visibility("default"))) extern const struct store_engine qkv_engine;
const struct store_engine qkv_engine = { .size = sizeof qkv_engine,
                                         .version = store_version,
                                         .open = store_open,
                                         .close = store_close,
                                         .finish = store_finish,
                                         .set = store_set,
                                         .get = store_get,
                                         .add_file = store_add_file,
                                         .add_passage = store_add_passage,
                                         .file_named = store_file_named,
                                         .file = store_file_id,
                                         .passage = store_passage_at,
                                         .count = store_count,
                                         .parse = store_parse };
