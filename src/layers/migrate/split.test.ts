import fc from 'fast-check'
import { expect, it } from 'vitest'
import { splitSql } from './split.ts'

it('cuts at semicolons, but not inside quotes, comments, dollar quotes and triggers', () => {
  const text = `
    CREATE TABLE a (t TEXT DEFAULT ';'); -- not here;
    INSERT INTO a VALUES ('it''s; fine'), ("x;y"); /* nor ; here */
    CREATE FUNCTION f() RETURNS void AS $body$ BEGIN; END; $body$ LANGUAGE plpgsql;
    CREATE TRIGGER t AFTER INSERT ON a BEGIN
      UPDATE a SET t = CASE WHEN t = ';' THEN 1 ELSE 2 END; DELETE FROM a;
    END;
    SELECT 1`
  expect(splitSql(text).map((statement) => statement.split(/\s+/).slice(0, 2).join(' '))).toEqual([
    'CREATE TABLE',
    '-- not',
    '/* nor',
    'CREATE TRIGGER',
    'SELECT 1',
  ])
})

it('knows escape strings, bodies that begin with BEGIN ATOMIC, and rules of several statements', () => {
  const statements = [
    `INSERT INTO a VALUES (E'it\\'s; one', e'\\\\')`,
    `INSERT INTO type VALUES ('type''; two')`,
    'CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 1 END; END',
    'CREATE OR REPLACE PROCEDURE p() LANGUAGE sql BEGIN ATOMIC INSERT INTO a VALUES (1); END',
    'CREATE RULE r AS ON INSERT TO a DO ALSO (SELECT 1; SELECT 2)',
    'BEGIN',
    'END',
  ]
  expect(splitSql(statements.join(';\n'))).toEqual(statements)
})

it('loses no text and makes no empty statement', () => {
  const piece = fc.constantFrom('SELECT 1', ';', "'a;b'", '--c;\n', '/*;*/', ' ', '\n', 'x', '$$;$$', '"q;"')
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      const text = pieces.join('')
      const statements = splitSql(text)
      let at = 0
      for (const statement of statements) {
        expect(statement.trim()).not.toBe('')
        const found = text.indexOf(statement, at)
        expect(found).toBeGreaterThanOrEqual(at)
        at = found + statement.length
      }
    }),
  )
})
