-- Tables, columns, keys, indexes and finished migrations of a database, one a line.
SELECT line FROM (
    SELECT format('%s #%s %s %s%s%s', c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END,
        coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')) AS line
    FROM pg_class c
    INNER JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
    UNION ALL
    SELECT format('%s %s', i.indexrelid::regclass, pg_get_indexdef(i.indexrelid))
        || CASE WHEN i.indisvalid THEN '' ELSE ' INVALID' END
    FROM pg_index i INNER JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relnamespace = 'public'::regnamespace
    UNION ALL
    SELECT format('%s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
    UNION ALL
    SELECT format('migration %s', v) FROM checkpoint_migrations
) lines
WHERE line NOT LIKE '%durasim_deleted%'
ORDER BY line COLLATE "C"
