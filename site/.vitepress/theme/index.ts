// The default theme without its fonts, which would be most of the bytes of a page, and with two corrections for screen readers.

import { inBrowser } from 'vitepress'
import Theme from 'vitepress/theme-without-fonts'
import './style.css'

export default {
  extends: Theme,
  enhanceApp() {
    if (inBrowser) new MutationObserver(correct).observe(document, { childList: true, subtree: true })
  },
}

function correct(): void {
  // A group's row is a button already; the caret in it is a second one that does the same.
  for (const caret of document.querySelectorAll('.VPSidebarItem .item[role="button"] > .caret[role]')) {
    for (const name of ['role', 'tabindex', 'aria-label']) caret.removeAttribute(name)
  }
  // The landing page has no main part.
  document.querySelector('#VPContent.is-home:not([role])')?.setAttribute('role', 'main')
}
