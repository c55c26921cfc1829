// A value as a collapsible tree, with large parts closed at first.

import { useState } from 'preact/hooks'
import { Icon } from './ui.tsx'

const shownMax = 100
const openMax = 12

export function Json({ value, name, depth = 0 }: { value: unknown; name?: string; depth?: number }) {
  if (typeof value !== 'object' || value === null) {
    return (
      <div class="json-line">
        {name !== undefined && <span class="json-name">{name}</span>}
        <Leaf value={value} />
      </div>
    )
  }
  return <Branch value={value} {...(name !== undefined && { name })} depth={depth} />
}

function Branch({ value, name, depth }: { value: object; name?: string; depth: number }) {
  const entries = Object.entries(value)
  const [isOpen, setOpen] = useState(depth === 0 || (depth < 3 && entries.length <= openMax))
  const [shown, setShown] = useState(shownMax)
  const words = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`
  if (entries.length === 0) {
    return (
      <div class="json-line">
        {name !== undefined && <span class="json-name">{name}</span>}
        <span class="json-null">{Array.isArray(value) ? '[]' : '{}'}</span>
      </div>
    )
  }
  return (
    <div class="json">
      <button type="button" class="json-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name="chevron" />
        {name !== undefined && <span class="json-name">{name}</span>}
        <span class="json-null">{words}</span>
      </button>
      {isOpen && (
        <div class="json-inner">
          {entries.slice(0, shown).map(([key, item]) => (
            <Json key={key} name={key} value={item} depth={depth + 1} />
          ))}
          {entries.length > shown && (
            <button type="button" class="link" onClick={() => setShown(shown + 1000)}>
              {entries.length - shown} more
            </button>
          )}
        </div>
      )}
    </div>
  )
}

export function Leaf({ value }: { value: unknown }) {
  if (typeof value === 'string') return <span class="json-text">{value === '' ? '""' : value}</span>
  if (typeof value === 'number') return <span class="json-number">{String(value)}</span>
  return <span class="json-null">{String(value)}</span>
}
