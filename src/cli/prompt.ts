// Questions: only ever on a terminal. In a pipe the answer is no, and the command says which flag answers it.

import type { Output } from './output.ts'

export async function confirm(question: string, stdin: NodeJS.ReadStream, output: Output): Promise<boolean> {
  if (!stdin.isTTY || output.isJson) return false
  return /^y(es)?$/i.test(await ask(`${question} [y/N] `, stdin))
}

export async function ask(question: string, stdin: NodeJS.ReadStream): Promise<string> {
  const { createInterface } = await import('node:readline/promises')
  const reader = createInterface({ input: stdin, output: process.stderr })
  try {
    return (await reader.question(question)).trim()
  } finally {
    reader.close()
  }
}
