// The keyboard: one listener, and a table of the keys of each open view. Keys never fire while a person types.

import { useEffect, useRef } from 'preact/hooks'

export type Keys = Readonly<Record<string, (event: KeyboardEvent) => void>>

/** The view opened last takes precedence. */
const tables: { current: Keys }[] = []

window.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return
  const { target } = event
  const isTyping = target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)
  if (isTyping && event.key !== 'Escape') return
  if (document.querySelector('dialog[open]')) return
  for (const table of [...tables].reverse()) {
    const call = table.current[event.key]
    if (!call) continue
    // A focused button keeps its own Enter and space.
    if ((event.key === 'Enter' || event.key === ' ') && isControl(target)) return
    event.preventDefault()
    call(event)
    return
  }
})

function isControl(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && /^(BUTTON|A|SUMMARY)$/.test(target.tagName)
}

export function useKeys(keys: Keys): void {
  const table = useRef(keys)
  table.current = keys
  useEffect(() => {
    tables.push(table)
    return () => void tables.splice(tables.indexOf(table), 1)
  }, [])
}
