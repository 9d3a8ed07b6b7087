"""Strings that try to become markup, script, a request or a trick of direction, wherever a page shows foreign text."""

from __future__ import annotations

SCRIPTS = ("window.pwned=1", "fetch('http://127.0.0.1:9/x')", "import('http://127.0.0.1:9/x')")
SHAPES = (
    "<script>{}</script>", "<ScRiPt >{}</sCrIpT>", "</title><script>{}</script>", "</style><script>{}</script>", "]]><script>{}</script>",
    "--><script>{}</script>", "<!--><script>{}</script>", '"><script>{}</script>', "'><script>{}</script>", "`><script>{}</script>",
    "</code></pre><script>{}</script>", "</summary></details><script>{}</script>", "</td></tr></table><script>{}</script>",
    "<img src=x onerror={}>", '<img src="x" onerror="{}">', "<img/src=x/onerror={}>", '" onmouseover="{}" x="', "' onfocus='{}' autofocus x='",
    "<svg onload={}>", "<svg><script>{}</script></svg>", "</svg><script>{}</script>", "<svg><animate onbegin={} attributeName=x dur=1s>",
    "<svg><set attributeName=onmouseover to={}>", "<body onload={}>", "<details open ontoggle={}>", "<video><source onerror={}></video>",
    "<iframe srcdoc='<script>{}</script>'></iframe>", "<iframe src=javascript:{}></iframe>", "<a href=javascript:{}>x</a>",
    "<a href='java\tscript:{}'>x</a>", "<form action=javascript:{}><input type=submit autofocus>", "<object data=javascript:{}></object>",
    "<embed src=javascript:{}>", "<math><mi xlink:href=javascript:{}>x</mi></math>", "<base href=javascript:{}//>", "<link rel=import href=javascript:{}>",
    "<meta http-equiv=refresh content='0;url=javascript:{}'>", "<input autofocus onfocus={}>", "<select autofocus onfocus={}>",
    "<marquee onstart={}>", "<template><script>{}</script></template>", "<noscript><p title='</noscript><script>{}</script>'>",
    "&lt;script&gt;{}&lt;/script&gt;", "&#60;script&#62;{}&#60;/script&#62;", "\\u003cscript\\u003e{}\\u003c/script\\u003e", "%3Cscript%3E{}%3C/script%3E",
    "+ADw-script+AD4-{}+ADw-/script+AD4-", "\x00<script>{}</script>", "<\x00script>{}</script>", "<scr\x00ipt>{}</scr\x00ipt>",
    "<script\x0c>{}</script\x0c>", "\u2028<script>{}</script>", "\ufeff<script>{}</script>", "\x1b]8;;javascript:{}\x07x\x1b]8;;\x07",
    "\u202e<script>{}</script>", "\ud800<script>{}</script>", "<x:script xmlns:x='http://www.w3.org/1999/xhtml'>{}</x:script>",
    "{{{{constructor.constructor('{}')()}}}}", "${{{}}}", "<%= {} %>", "{{% {} %}}", "#{{{}}}", "javascript:{}", "data:text/html,<script>{}</script>",
    "<style>@import 'http://127.0.0.1:9/{}'</style>", "<style>*{{background:url(http://127.0.0.1:9/{})}}</style>",
    "</style><style>*{{background:url(http://127.0.0.1:9/{})}}", "x;background:url(http://127.0.0.1:9/{})", "![x](http://127.0.0.1:9/{})",
    "[x](javascript:{})", "<http://127.0.0.1:9/{}>", "<link rel=stylesheet href=http://127.0.0.1:9/{}>", "<img src=http://127.0.0.1:9/{}>",
    "<img srcset='http://127.0.0.1:9/{} 2x'>", "<audio src=http://127.0.0.1:9/{} autoplay>", "<video poster=http://127.0.0.1:9/{}>",
    "<svg><image href=http://127.0.0.1:9/{} /></svg>", "<svg><use href=http://127.0.0.1:9/{}#x /></svg>", "<body background=http://127.0.0.1:9/{}>",
    "<table background=http://127.0.0.1:9/{}>", "<input type=image src=http://127.0.0.1:9/{}>", "<iframe src=http://127.0.0.1:9/{}>",
    "<object data=http://127.0.0.1:9/{}>", "<embed src=http://127.0.0.1:9/{}>", "<script src=http://127.0.0.1:9/{}></script>",
    "<link rel=prefetch href=http://127.0.0.1:9/{}>", "<link rel=preconnect href=http://127.0.0.1:9/{}>", "<meta http-equiv=refresh content=0;url=http://127.0.0.1:9/{}>",
    "<base href=http://127.0.0.1:9/{}/>", "<svg><feImage href=http://127.0.0.1:9/{} /></svg>", "<isindex action=javascript:{}>", "<q cite=http://127.0.0.1:9/{}>",
    "diff --git <script>{}</script>", "@@ <script>{}</script>", "+++ b/<script>{}</script>.svg", 'class="c-k"><script>{}</script>', "<tt onclick={}>", "<details ontoggle={} open>", "<dialog open onclose={}>", "<summary onclick={}>",
    "\u202e<b onclick={}>\u202c",
)  # fmt: skip
PAYLOADS = tuple(
    shape.replace("{{", "{").replace("}}", "}").replace("{}", script) for shape in SHAPES for script in SCRIPTS
)
