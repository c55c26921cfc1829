// Mutants of a source: the same text with one small bug in it. They are made on the syntax tree, so strings, types and comments
// stay unchanged. Messages of errors are not mutated, because wording may change; nor are assertions, which guard against
// impossible states.

import { parseAst } from 'vitest/node'

const swapped = new Map([
  ['<', '<='],
  ['<=', '<'],
  ['>', '>='],
  ['>=', '>'],
  ['===', '!=='],
  ['!==', '==='],
  ['&&', '||'],
  ['||', '&&'],
  ['??', '&&'],
  ['+', '-'],
  ['-', '+'],
])

/** @returns {{ line: number, what: string, was: string, now: string, text: string }[]} */
export function mutantsOf(source) {
  const mutants = []
  const add = (start, end, now, what) => {
    const was = source.slice(start, end)
    if (was === now) return
    const line = source.slice(0, start).split('\n').length
    const brief = (text) => text.replace(/\s+/g, ' ').slice(0, 70)
    const text = source.slice(0, start) + now + source.slice(end)
    mutants.push({ line, what, was: brief(was), now: brief(now), text })
  }
  const replace = (node, now, what) => add(node.start, node.end, now, what)
  const kinds = {
    BinaryExpression: ({ left, operator, right }) => {
      const now = swapped.get(operator)
      if (!now || (operator === '+' && [left, right].some(isText))) return
      const at = source.indexOf(operator, left.end)
      add(at, at + operator.length, now, 'operator')
    },
    IfStatement: ({ test }) => both(test),
    ConditionalExpression: ({ test }) => both(test),
    Literal: (node) => {
      if (typeof node.value === 'number') replace(node, String(node.value + 1), 'constant')
      if (typeof node.value === 'boolean') replace(node, String(!node.value), 'constant')
    },
    UnaryExpression: (node) => {
      if (node.operator === '!') replace(node, source.slice(node.argument.start, node.argument.end), 'negation')
    },
    ExpressionStatement: (node) => {
      if (node.expression.callee?.name !== 'assert') replace(node, ';', 'statement')
    },
    ContinueStatement: (node) => replace(node, ';', 'statement'),
    BreakStatement: (node) => replace(node, ';', 'statement'),
  }
  kinds.LogicalExpression = kinds.BinaryExpression
  const both = (test) => {
    replace(test, 'true', 'condition')
    replace(test, 'false', 'condition')
  }
  const visit = (node) => {
    if (Array.isArray(node)) return node.forEach(visit)
    if (typeof node?.type !== 'string' || isLeftAlone(node)) return
    kinds[node.type]?.(node)
    for (const key in node) if (typeof node[key] === 'object') visit(node[key])
  }
  visit(parseAst(source, { lang: 'ts' }))
  return mutants
}

function isText({ type, value }) {
  return type === 'TemplateLiteral' || (type === 'Literal' && typeof value === 'string')
}

/** Types, imports and the texts of errors (also in functions of their own, describe…) have no effect on behaviour. */
function isLeftAlone({ type, callee, expression, id }) {
  if (type === 'FunctionDeclaration' && id?.name.startsWith('describe')) return true
  if (type.startsWith('TS') && type !== 'TSNonNullExpression' && type !== 'TSAsExpression') return true
  if (type === 'ImportDeclaration' || type === 'ThrowStatement') return true
  if (type === 'ExpressionStatement' && expression.callee?.name === 'assert') return true
  return type === 'NewExpression' && callee.name === 'RepriseError'
}
