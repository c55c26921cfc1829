// JSON that a command takes: from a file, from standard input (-), or written out as the argument.

import { existsSync, readFileSync } from 'node:fs'
import type { Invocation } from './command.ts'
import { parseJson } from './exit.ts'

/** @example await readJson(invocation, 'site.json') */
export async function readJson({ stdin }: Pick<Invocation, 'stdin'>, given: string): Promise<unknown> {
  const source = given === '-' ? 'standard input' : existsSync(given) ? given : 'the argument (no file of that name)'
  const text = given === '-' ? await readAll(stdin) : existsSync(given) ? readFileSync(given, 'utf8') : given
  return parseJson(text, source)
}

async function readAll(stdin: NodeJS.ReadStream): Promise<string> {
  let text = ''
  stdin.setEncoding('utf8')
  for await (const piece of stdin) text += piece
  return text
}
