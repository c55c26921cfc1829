// The length of functions, measured on the syntax tree: functions, methods, constructors, accessors and arrows, from the first
// line to the last one. A callback counts for the function that contains it as well as for itself.
// A function that only defines other functions, such as a factory that returns an object of methods, is measured without them.

import { parseAst } from 'rolldown/parseAst'
import type { Source } from './architecture.ts'

/** A function fits on a screen; the test fails above this number of lines. */
export const functionLinesMax = 70

export interface LongFunction {
  readonly path: string
  readonly line: number
  /** Its own name, or that of the variable, member or function that it belongs to. */
  readonly name: string
  readonly lines: number
}

interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [field: string]: unknown
}

/** @example longFunctions({ path: 'a.ts', text: 'function a() {}' }) // none */
export function longFunctions(source: Source, linesMax = functionLinesMax): LongFunction[] {
  const lang = /\.tsx$/.test(source.path) ? 'tsx' : /\.ts$/.test(source.path) ? 'ts' : 'js'
  const lineAt = lineFinder(source.text)
  const spanOf = (node: Node) => lineAt(node.end) - lineAt(node.start) + 1
  const found: LongFunction[] = []
  const visit = (node: Node, name: string): void => {
    const named = nameOf(node) ?? name
    if (isFunction(node)) {
      const lines = spanOf(node) - definitionsOf(node).reduce((sum, each) => sum + spanOf(each), 0)
      if (lines > linesMax) found.push({ path: source.path, line: lineAt(node.start), name: named, lines })
    }
    for (const child of childrenOf(node)) visit(child, named)
  }
  for (const node of parseAst(source.text, { lang }, source.path).body) visit(node as unknown as Node, '')
  return found
}

/** The functions that a function defines and names or returns, if it does nothing else; otherwise none. */
function definitionsOf(node: Node): Node[] {
  const body = node.body as Node
  const statements = body.type === 'BlockStatement' ? (body.body as Node[]) : []
  const definesOnly = statements.every(({ type }) =>
    ['VariableDeclaration', 'FunctionDeclaration', 'ExpressionStatement', 'ReturnStatement'].includes(type),
  )
  if (!definesOnly) return []
  const found: Node[] = []
  const visit = (at: Node, parent: Node): void => {
    if (!isFunction(at)) for (const child of childrenOf(at)) visit(child, at)
    else if (isDefinedBy(parent, at)) found.push(at)
    // A factory that is passed to a wrapper is measured without its definitions here, too.
    else found.push(...definitionsOf(at))
  }
  visit(body, node)
  return found
}

function isDefinedBy(parent: Node, node: Node): boolean {
  const isNamed = ['Property', 'MethodDefinition', 'PropertyDefinition', 'VariableDeclarator'].includes(parent.type)
  return isNamed || node.type === 'FunctionDeclaration' || parent.type === 'ReturnStatement' || isFunction(parent)
}

function isFunction({ type }: Node): boolean {
  return ['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'].includes(type)
}

function nameOf(node: Node): string | undefined {
  const key = (node.id ?? node.key) as { name?: unknown; value?: unknown } | null | undefined
  const name = key?.name ?? key?.value
  return typeof name === 'string' ? name : undefined
}

function childrenOf(node: Node): Node[] {
  return Object.values(node)
    .flat()
    .filter((value): value is Node => typeof (value as Node | null)?.type === 'string')
}

/** The line of a position, counted from 1. */
function lineFinder(text: string): (position: number) => number {
  const starts = [0]
  for (let i = text.indexOf('\n'); i >= 0; i = text.indexOf('\n', i + 1)) starts.push(i + 1)
  return (position) => {
    let [low, high] = [0, starts.length]
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if (starts[middle]! <= position) low = middle
      else high = middle
    }
    return low + 1
  }
}
