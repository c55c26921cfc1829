// Output of the CLI: results on stdout, everything else on stderr. Colour and alignment on a terminal, plain text in a pipe,
// JSON on request. NO_COLOR and FORCE_COLOR are respected. Commands print only through this, so that no external text reaches
// a terminal unescaped (escape.ts).

import { plain } from '../operations/json.ts'
import { coloured, colourMark, escaped, escapedJson, withoutColours } from './escape.ts'

export interface Terminal {
  readonly stdout: {
    readonly isTTY?: boolean
    readonly columns?: number
    write(text: string): unknown
    once?(event: 'error', call: () => void): unknown
  }
  readonly stderr: { readonly isTTY?: boolean; readonly columns?: number; write(text: string): unknown }
  readonly env: Readonly<Record<string, string | undefined>>
}

export type Paint = (text: string) => string

export interface Colours {
  readonly bold: Paint
  readonly dim: Paint
  readonly red: Paint
  readonly green: Paint
  readonly yellow: Paint
}

export class Output {
  readonly isJson: boolean
  readonly isTerminal: boolean
  readonly colours: Colours
  readonly errorColours: Colours
  readonly #terminal: Terminal
  #logsJson = false

  constructor(terminal: Terminal, isJson: boolean) {
    this.#terminal = terminal
    this.isJson = isJson
    this.isTerminal = terminal.stdout.isTTY === true
    this.colours = coloursFor(terminal.stdout.isTTY === true, terminal.env)
    this.errorColours = coloursFor(terminal.stderr.isTTY === true, terminal.env)
  }

  /** Calls `call` when the reader of the results has exited, as after `| head`. */
  onClosed(call: () => void): void {
    this.#terminal.stdout.once?.('error', call)
  }

  get columns(): number {
    return this.#terminal.stdout.columns || 100
  }

  /** A result for people, always on one line; nothing with --json. */
  line(text = ''): void {
    if (!this.isJson) this.#terminal.stdout.write(`${coloured(escaped(text))}\n`)
  }

  /** Our own text with several lines, or JSON: its line breaks are intended. */
  lines(text: string): void {
    for (const line of text.split('\n')) this.line(line)
  }

  /** The result as one JSON value; nothing without --json. */
  json(value: unknown): void {
    if (this.isJson) this.#terminal.stdout.write(`${toJson(value)}\n`)
  }

  /** The JSON value with --json, otherwise the text. */
  result(value: unknown, text: () => void): void {
    if (this.isJson) this.json(value)
    else text()
  }

  note(text: string): void {
    // Empty lines only separate texts for people.
    if (this.#logsJson) text && this.log({ level: 'info', kind: 'note', message: withoutColours(text) })
    else this.#terminal.stderr.write(`${coloured(escaped(text))}\n`)
  }

  /** From now on each note is one JSON row of the log, so that a reader of stderr finds only JSON. */
  logJson(): void {
    this.#logsJson = true
  }

  /** One JSON row on stderr. */
  log(row: Readonly<Record<string, unknown>>): void {
    this.#terminal.stderr.write(`${toJson({ time: new Date().toISOString(), ...row })}\n`)
  }

  /** Like `lines`, to stderr. */
  notes(text: string): void {
    for (const line of text.split('\n')) this.note(line)
  }

  /** Without a line break: the input follows on the same line. */
  question(text: string): void {
    this.#terminal.stderr.write(coloured(escaped(text)))
  }

  /** Aligned columns; the last one is never padded, and no id is ever truncated. */
  table(headings: readonly string[], rows: readonly (readonly string[])[]): void {
    if (this.isJson) return
    const cleaned = rows.map((row) => row.map(escaped))
    const widths = headings.map((heading, i) => Math.max(heading.length, ...cleaned.map((row) => width(row[i] ?? ''))))
    const format = (row: readonly string[]) =>
      row
        .map((cell, i) => (i === row.length - 1 ? cell : cell + ' '.repeat(Math.max(0, widths[i]! - width(cell)))))
        .join('  ')
        .trimEnd()
    this.line(this.colours.dim(format(headings)))
    for (const row of cleaned) this.line(format(row))
  }

  /** Names and values, one pair per line. */
  facts(pairs: readonly (readonly [string, string])[]): void {
    const widest = Math.max(...pairs.map(([name]) => name.length))
    for (const [name, value] of pairs) this.line(`${this.colours.dim(name.padEnd(widest))}  ${value}`)
  }
}

export function coloursFor(isTerminal: boolean, env: Readonly<Record<string, string | undefined>>): Colours {
  const isOn = env.NO_COLOR
    ? false
    : env.FORCE_COLOR && env.FORCE_COLOR !== '0'
      ? true
      : isTerminal && env.TERM !== 'dumb'
  const paint = (on: number, off: number): Paint =>
    isOn ? (text) => `${colourMark(on)}${text}${colourMark(off)}` : (text) => text
  return {
    bold: paint(1, 22),
    dim: paint(2, 22),
    red: paint(31, 39),
    green: paint(32, 39),
    yellow: paint(33, 39),
  }
}

/** JSON that preserves values which plain JSON would drop or refuse: big integers, bytes, maps, sets, dates, errors. */
export function toJson(value: unknown, indent?: number): string {
  return escapedJson(JSON.stringify(value, plain, indent) ?? 'null')
}

function width(text: string): number {
  return withoutColours(text).length
}
