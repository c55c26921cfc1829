// Reporters show progress: a bar on a terminal, plain lines in a pipe, JSON lines for programs, or nothing. They write
// to stderr (or the given stream), so that stdout stays free for results.

import type { JobRun } from '../run.ts'
import { barReporter } from './bar.ts'
import { jsonReporter, lineReporter, type Reporter, type ReportStream } from './lines.ts'

export type ReporterName = 'auto' | 'bar' | 'lines' | 'json' | 'none' | Reporter

/** @example attachReporter(run, 'auto') */
export function attachReporter<T>(
  run: JobRun<T>,
  name: ReporterName,
  stream: ReportStream = process.stderr,
): () => void {
  if (name === 'none') return () => undefined
  return run.watch(typeof name === 'function' ? name : makeReporter(name, stream))
}

export function makeReporter(name: 'auto' | 'bar' | 'lines' | 'json', stream: ReportStream): Reporter {
  const chosen = name === 'auto' ? (stream.isTTY ? 'bar' : 'lines') : name
  if (chosen === 'bar') return barReporter(stream)
  return chosen === 'json' ? jsonReporter(stream) : lineReporter(stream)
}

export type { Reporter, ReportStream } from './lines.ts'
