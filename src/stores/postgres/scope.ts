// Tests in SQL whether an id is within a scope: the rule of core/history/scope.ts, for statements that decide it in the
// database.

/** Both are SQL expressions of type text, bound or read; never text of a user. */
export function withinSql(id: string, scope: string): string {
  return `(${scope} = '' OR ${id} = ${scope}
    OR starts_with(${id}, CASE WHEN right(${scope}, 1) = '/' THEN ${scope} ELSE ${scope} || '/' END)
    OR (starts_with(${id}, ${scope}) AND substr(${id}, length(${scope}) + 1) ~ '^(~[0-9]+)+$'))`
}
