// A list of any length that renders only visible rows. Rows have one height, so that scrolling needs no measuring.

import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'

const spareRows = 12

export interface VirtualListProps {
  readonly count: number
  readonly rowHeight: number
  readonly label: string
  /** The selected row; it is scrolled into view when it changes. */
  readonly chosen: number
  readonly onChoose: (index: number) => void
  /** Follows new rows at the end while the end is in view. */
  readonly follow?: boolean
  readonly row: (index: number) => ComponentChildren
}

export function VirtualList({ count, rowHeight, label, chosen, onChoose, follow, row }: VirtualListProps) {
  const ref = useRef<HTMLDivElement>(null)
  const [view, setView] = useState({ top: 0, height: 600 })
  const isAtEnd = useRef(true)
  useEffect(() => {
    const box = ref.current!
    const look = () => {
      isAtEnd.current = box.scrollTop + box.clientHeight >= box.scrollHeight - rowHeight
      setView({ top: box.scrollTop, height: box.clientHeight })
    }
    look()
    const observer = new ResizeObserver(look)
    observer.observe(box)
    box.addEventListener('scroll', look, { passive: true })
    return () => {
      observer.disconnect()
      box.removeEventListener('scroll', look)
    }
  }, [])
  useEffect(() => {
    const box = ref.current!
    if (follow && isAtEnd.current) box.scrollTop = box.scrollHeight
  }, [count])
  useEffect(() => {
    const box = ref.current!
    if (chosen < 0) return
    const top = chosen * rowHeight
    if (top < box.scrollTop) box.scrollTop = top - rowHeight
    else if (top + rowHeight > box.scrollTop + box.clientHeight) box.scrollTop = top + 2 * rowHeight - box.clientHeight
  }, [chosen])
  const first = Math.max(0, Math.floor(view.top / rowHeight) - spareRows)
  const last = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + spareRows)
  const shown = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i)
  const move = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(view.height / rowHeight) - 1)
    const steps: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -count,
      End: count,
    }
    const by = steps[event.key]
    if (by === undefined || count === 0) return
    event.preventDefault()
    onChoose(Math.min(Math.max(chosen + by, 0), count - 1))
  }
  return (
    <div
      ref={ref}
      class="virtual"
      role="listbox"
      tabIndex={0}
      aria-label={label}
      aria-activedescendant={chosen >= first && chosen < last ? `row-${chosen}` : undefined}
      onKeyDown={move}
    >
      <div class="virtual-space" style={{ height: `${count * rowHeight}px` }}>
        {shown.map((index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the list has the focus and moves the choice.
          <div
            key={index}
            id={`row-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === chosen}
            aria-setsize={count}
            aria-posinset={index + 1}
            class="virtual-row"
            style={{ transform: `translateY(${index * rowHeight}px)`, height: `${rowHeight}px` }}
            onClick={() => onChoose(index)}
          >
            {row(index)}
          </div>
        ))}
      </div>
    </div>
  )
}
