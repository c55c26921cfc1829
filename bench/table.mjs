// The table for people; --json prints its numbers.

import { describeTarget } from './judge.mjs'

/** @example formatTable('kernel', results) */
export function formatTable(suite, results) {
  const header = ['bench', 'value', 'baseline', 'unit', 'ratio', 'spread', 'target', '']
  const rows = [header, ...results.map(rowOf)]
  const widths = header.map((_, column) => Math.max(...rows.map((row) => row[column].length)))
  const isNumber = (column) => [1, 2, 4, 5].includes(column)
  const lines = rows.map((row) =>
    row
      .map((cell, column) => (isNumber(column) ? cell.padStart(widths[column]) : cell.padEnd(widths[column])))
      .join('  ')
      .trimEnd(),
  )
  const rule = widths.map((width) => '-'.repeat(width)).join('  ')
  return [`suite ${suite}`, '', lines[0], rule.trimEnd(), ...lines.slice(1), ...notes(results)].join('\n')
}

function rowOf(result) {
  const verdict = result.error ? 'BROKE' : result.skipped ? 'skipped' : { true: 'met', false: 'MISSED' }[result.met]
  return [
    result.name,
    figure(result.value),
    figure(result.baseline),
    result.unit,
    result.ratio === null ? '-' : result.ratio.toFixed(2),
    result.spread === undefined ? '-' : `${Math.round(result.spread * 100)} %`,
    describeTarget(result.target),
    verdict ?? '',
  ]
}

function notes(results) {
  const lines = results.flatMap((result) => {
    const details = Object.entries(result.details ?? {}).map(([name, value]) => `${name} ${figure(value)}`)
    const words = [result.note, details.join(', '), result.skipped, result.error].filter(Boolean)
    return words.length === 0 ? [] : [`${result.name}: ${words.join('; ')}`]
  })
  return lines.length === 0 ? [] : ['', ...lines]
}

function figure(value) {
  if (value === null || value === undefined) return '-'
  return value.toLocaleString('en', { maximumFractionDigits: Math.abs(value) >= 100 ? 0 : 2, useGrouping: true })
}
