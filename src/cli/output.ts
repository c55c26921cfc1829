// What the CLI prints: results on stdout, everything else on stderr. Colour and alignment on a terminal, plain text in a
// pipe, JSON where asked for. NO_COLOR is obeyed, FORCE_COLOR too. Commands print through this and nothing else, so that no
// text from outside reaches a terminal as it is (escape.ts).

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
  readonly cyan: Paint
}

export class Output {
  readonly isJson: boolean
  readonly isTerminal: boolean
  readonly colours: Colours
  readonly errorColours: Colours
  readonly #terminal: Terminal

  constructor(terminal: Terminal, isJson: boolean) {
    this.#terminal = terminal
    this.isJson = isJson
    this.isTerminal = terminal.stdout.isTTY === true
    this.colours = coloursFor(terminal.stdout.isTTY === true, terminal.env)
    this.errorColours = coloursFor(terminal.stderr.isTTY === true, terminal.env)
  }

  /** Calls when nobody reads the results any more, as after `| head`. */
  onClosed(call: () => void): void {
    this.#terminal.stdout.once?.('error', call)
  }

  get columns(): number {
    return this.#terminal.stdout.columns || 100
  }

  /** A result for people, on one line whatever is in it; nothing with --json. */
  line(text = ''): void {
    if (!this.isJson) this.#terminal.stdout.write(`${coloured(escaped(text))}\n`)
  }

  /** Text of our own with several lines, or JSON: what lines it has are meant. */
  lines(text: string): void {
    for (const line of text.split('\n')) this.line(line)
  }

  /** The result as one JSON value; nothing without --json. */
  json(value: unknown): void {
    if (this.isJson) this.#terminal.stdout.write(`${toJson(value)}\n`)
  }

  /** One or the other. */
  result(value: unknown, text: () => void): void {
    if (this.isJson) this.json(value)
    else text()
  }

  note(text: string): void {
    this.#terminal.stderr.write(`${coloured(escaped(text))}\n`)
  }

  /** As `lines`, to stderr. */
  notes(text: string): void {
    for (const line of text.split('\n')) this.note(line)
  }

  /** Without an end: what is typed goes beside it. */
  question(text: string): void {
    this.#terminal.stderr.write(coloured(escaped(text)))
  }

  /** Aligned columns; the last one is never padded, and no id is ever cut. */
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

  /** Names and values, one a line. */
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
    cyan: paint(36, 39),
  }
}

/** JSON that keeps what plain JSON would drop or refuse: big integers, bytes, maps, sets, dates, errors. */
export function toJson(value: unknown, indent?: number): string {
  return escapedJson(JSON.stringify(value, plain, indent) ?? 'null')
}

function width(text: string): number {
  return withoutColours(text).length
}
