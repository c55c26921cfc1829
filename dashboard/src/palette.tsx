// The command palette: one field that finds screens, saved views, actions on the timeline that is open, definitions to
// start, and timelines.

import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { get } from './api.ts'
import { go, hrefOf, place } from './route.ts'
import { whyNot } from './session.ts'
import { startRun } from './starting.ts'
import type { SearchAnswer } from './types.ts'
import { Dialog } from './ui.tsx'
import { hrefOfView, savedViews } from './views.tsx'

export interface Command {
  readonly words: string
  /** The key that does the same. */
  readonly key?: string
  act(): void
}

export const isPaletteOpen = signal(false)
/** Commands of the screen that is open. */
export const screenCommands = signal<readonly Command[]>([])

window.addEventListener('keydown', (event) => {
  if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return
  event.preventDefault()
  if (!document.querySelector('dialog[open]')) isPaletteOpen.value = true
})

const foundMax = 8
const typingMs = 120

export function Palette() {
  const [text, setText] = useState('')
  const [chosen, setChosen] = useState(0)
  const found = useFound(text)
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  const commands = [...own().filter((each) => words.every((word) => each.words.toLowerCase().includes(word))), ...found]
  const at = Math.min(chosen, commands.length - 1)
  const close = () => {
    isPaletteOpen.value = false
  }
  const run = (command: Command | undefined) => {
    if (!command) return
    close()
    command.act()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const by = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
    if (event.key === 'Enter') run(commands[at])
    else if (by !== 0) setChosen((at + by + commands.length) % Math.max(1, commands.length))
    else return
    event.preventDefault()
  }
  return (
    <Dialog title="Go to or do" onClose={close} isWide>
      <input
        type="text"
        role="combobox"
        class="palette-field"
        aria-label="Command or id"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={commands.length > 0 ? `palette-${at}` : undefined}
        placeholder="A screen, an action, an id, an error…"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value)
          setChosen(0)
        }}
        onKeyDown={onKeyDown}
      />
      <div id="palette-list" class="palette" role="listbox" aria-label="Commands" tabIndex={-1}>
        {commands.map((command, i) => (
          <div
            key={command.words}
            id={`palette-${i}`}
            role="option"
            tabIndex={-1}
            aria-selected={i === at}
            onClick={() => run(command)}
            onKeyDown={() => undefined}
          >
            <span>{command.words}</span>
            {command.key && <kbd>{command.key}</kbd>}
          </div>
        ))}
      </div>
      {commands.length === 0 && <p class="dim">Nothing matches</p>}
    </Dialog>
  )
}

function own(): readonly Command[] {
  const screens = [
    ['Runs', ['runs'], {}, '1'],
    ['Storage', ['storage'], {}, '2'],
    ['System', ['system'], {}, '3'],
    ['Everything: all timelines', ['runs'], { all: '1' }],
    ['Needs a person', ['runs'], { attention: '1' }],
    ['Failed runs', ['runs'], { status: 'failed' }],
  ] as const
  return [
    ...screenCommands.value,
    ...(whyNot('write') === undefined ? [{ words: 'Start a run…', key: 'n', act: () => startRun() }] : []),
    ...screens.map(([words, path, query, key]) => ({
      words,
      ...(key && { key }),
      act: () => go(hrefOf(path, query as Record<string, string>)),
    })),
    ...savedViews.value.map((view) => ({ words: `View: ${view.name}`, act: () => go(hrefOfView(view)) })),
  ]
}

/** Timelines whose id, attribute or error has the words. */
function useFound(text: string): readonly Command[] {
  const [found, setFound] = useState<readonly Command[]>([])
  useEffect(() => {
    setFound([])
    if (text.trim() === '') return
    let isOver = false
    const timer = setTimeout(() => {
      get<SearchAnswer>('v1/search', { text, limit: foundMax }).then(
        ({ timelines }) => {
          if (isOver) return
          setFound(timelines.map(({ timeline }) => ({ words: timeline, act: () => go(hrefOf(['t', timeline])) })))
        },
        () => undefined,
      )
    }, typingMs)
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }, [text, place.value.namespace])
  return found
}
