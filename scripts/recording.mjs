// Records the picture of README.md and of the landing page: `node scripts/recording.mjs` after a build runs `reprise demo` on a
// terminal of its own (the program `script` of util-linux), with real SIGKILLs, and draws the lines that its reader sees.

import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const bin = `${root}dist/cli/bin.cjs`
const colours = { 2: '#7a828e', 31: '#e0605a', 32: '#58b368' }

const command = `stty columns 96; exec ${process.execPath} ${bin} demo`
const env = { ...process.env, FORCE_COLOR: '1', TERM: 'xterm-256color' }
const ran = spawnSync('script', ['-qec', command, '/dev/null'], { cwd: root, env, encoding: 'utf8', input: '' })
if (ran.status !== 0) throw new Error(`the demo ended with ${ran.status}: ${ran.stdout}`)
writeFileSync(`${root}docs/terminal/crash-and-resume.svg`, drawing(linesSeen(ran.stdout.replaceAll('\u001b', '␛'))))

/** Without the sequences of the terminal, whose escape character is written as ␛ here. */
function plain(text) {
  return text.replaceAll(/␛\[[\d;?]*[A-Za-z]/g, '')
}

/** The last state of each line: a progress bar is written over itself. What follows the report is left out. */
function linesSeen(output) {
  const lines = output.split(/\r?\n/).map((line) => lastState(line))
  const end = lines.findIndex((line) => /^Nothing was lost/.test(plain(line)))
  if (end < 0) throw new Error(`the demo lost something: ${output}`)
  return lines.slice(0, end + 1)
}

function lastState(line) {
  const states = line.split(/\r|␛\[\d*[KG]/).filter((state) => plain(state).trim() !== '')
  return states.at(-1) ?? ''
}

function drawing(lines) {
  const kills = [...lines.join('\n').matchAll(/after (\d+) items/g)].map(([, count]) => count)
  let y = 58
  const texts = [`<text x="22" y="${y}"><tspan fill="#7a828e">$</tspan> npx reprise demo</text>`]
  for (const line of lines) {
    y += plain(line).trim() === '' ? 12 : 22
    if (plain(line).trim() !== '') texts.push(`<text x="22" y="${y}">${spans(line)}</text>`)
  }
  const height = y + 20
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 ${height}" role="img" aria-labelledby="title desc" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">
  <title id="title">A job is killed ${kills.length} times and resumes each time</title>
  <desc id="desc">A terminal: reprise demo runs a job. It is killed with SIGKILL after ${kills.join(', ')} items, starts again each time where it was, and loses nothing.</desc>
  <rect width="860" height="${height}" rx="10" fill="#14161a"/>
  <circle cx="22" cy="20" r="6" fill="#e0605a"/><circle cx="42" cy="20" r="6" fill="#e0b04a"/><circle cx="62" cy="20" r="6" fill="#5db35d"/>
  <g fill="#d6d9de" xml:space="preserve" style="white-space: pre">
    ${texts.join('\n    ')}
  </g>
</svg>
`
}

/** Colours and bold as spans. */
function spans(line) {
  let style = {}
  return line
    .split(/(␛\[[\d;]*m)/)
    .map((part) => {
      const codes = /^␛\[([\d;]*)m$/.exec(part)
      if (!codes) return part === '' ? '' : span(plain(part), style)
      for (const code of codes[1].split(';').map(Number)) style = styled(style, code)
      return ''
    })
    .join('')
}

function styled(style, code) {
  if (code === 1) return { ...style, isBold: true }
  if (code === 22) return {}
  if (colours[code]) return { ...style, fill: colours[code] }
  return code === 39 ? { isBold: style.isBold } : {}
}

function span(text, { fill, isBold }) {
  const safe = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  if (!fill && /[━─]/.test(text)) return bar(safe)
  const attributes = `${fill ? ` fill="${fill}"` : ''}${isBold ? ' font-weight="bold"' : ''}`
  return attributes === '' ? safe : `<tspan${attributes}>${safe}</tspan>`
}

/** The done and the open part of a progress bar, which a terminal shows in one colour. */
function bar(text) {
  return text
    .replace(/━+/, (done) => `<tspan fill="${colours[32]}">${done}</tspan>`)
    .replace(/─+/, (open) => `<tspan fill="#3c434d">${open}</tspan>`)
}
