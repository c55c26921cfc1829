// Prompts, only on a terminal. In a pipe the answer is no, and the command names the flag to use instead.

import { UsageError } from './exit.ts'
import type { Output } from './output.ts'

export async function confirm(question: string, stdin: NodeJS.ReadStream, output: Output): Promise<boolean> {
  if (!stdin.isTTY || output.isJson) return false
  const prompt = await Prompt.open(stdin)
  try {
    output.question(`${question} [y/N] `)
    return /^y(es)?$/i.test(await prompt.answer())
  } finally {
    prompt.close()
  }
}

/** Several questions with one reader: input typed ahead is not lost between them. */
export class Prompt {
  readonly #lines: AsyncIterator<string>
  readonly #close: () => void

  private constructor(lines: AsyncIterator<string>, close: () => void) {
    this.#lines = lines
    this.#close = close
  }

  static async open(stdin: NodeJS.ReadStream): Promise<Prompt> {
    const { createInterface } = await import('node:readline')
    const reader = createInterface({ input: stdin, terminal: false })
    return new Prompt(reader[Symbol.asyncIterator](), () => reader.close())
  }

  async ask(question: string): Promise<string> {
    process.stderr.write(question)
    return await this.answer()
  }

  async answer(): Promise<string> {
    const line = await this.#lines.next()
    if (line.done)
      throw new UsageError('the input ended before all questions were answered', 'every question has a flag: see help')
    return line.value.trim()
  }

  close(): void {
    this.#close()
  }
}
